"""Read what real systems print, and fit a machine to it. One file a format."""
