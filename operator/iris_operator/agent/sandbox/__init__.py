"""From a Task to its sandbox: what it is made of, how it is set up, what is known of it afterwards."""
