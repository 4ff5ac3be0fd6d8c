"""What makes a machine a Kubernetes node: files, programs, and the record of it."""
