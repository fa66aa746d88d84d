"""Makes a cluster, checks it, and says how it is: what an operator does beside running its nodes."""
