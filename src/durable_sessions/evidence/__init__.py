"""What proves a dossier: its archive, the signed statement about its files, and how both are verified.

The server writes archives, and anybody verifies them with nothing but the server's public keys. So this
package knows neither the server nor the client.
"""
