"""The disk a simulated board boots from, and what its boot loader makes of it."""
