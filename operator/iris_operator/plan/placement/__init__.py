"""Which Task goes where, who makes room for whom, and why one found none."""
