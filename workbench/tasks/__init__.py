"""What models learn here. A new task is one file and one entry in `TASKS`."""
