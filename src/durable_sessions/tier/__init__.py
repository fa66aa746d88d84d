"""The tier of the bucket: what a flush writes, where cold data is read, and what keeps the bucket tidy."""
