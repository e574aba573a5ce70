"""What a program asked of the NPU, kept in a file and run again."""
