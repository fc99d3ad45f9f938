"""The Streamlit explorer: widgets, then a measurement, then a figure; nothing else."""
