"""What may be said of a result: one rule for what an uninformed model would hardly do, and one place that words it."""
