"""What a board would take, from published constants alone.

Every result is a prediction: show it with the word ``predicted``. Times are nanoseconds, rates bytes
or multiply-accumulates in a nanosecond (bytes/ns is GB/s). Constants and where they are from:
``constants``.
"""
