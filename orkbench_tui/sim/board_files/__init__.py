"""The files of the simulated ROCK 5B: fixed facts as tables, state as small functions."""
