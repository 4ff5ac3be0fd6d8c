"""The Kubernetes API: where to find it (config), calls (client), list-and-watch (informer)."""
