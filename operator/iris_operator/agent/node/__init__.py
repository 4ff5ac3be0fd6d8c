"""What the node has and gives: disk, images, GPUs, ports, its name and certificate, its heartbeat."""
