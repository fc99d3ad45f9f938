"""The server of the explorer: who may ask it, and the training that it starts."""
