"""One Task: its attempts, its end, what it may ask for; and the members of a Task of several replicas."""
