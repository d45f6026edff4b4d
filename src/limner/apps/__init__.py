"""What people run: the command line and its pages."""
