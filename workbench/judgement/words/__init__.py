"""The one place that writes sentences about results: a file for each subject."""
