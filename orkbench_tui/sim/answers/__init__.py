"""What the simulated board answers to each operation of its protocol."""
