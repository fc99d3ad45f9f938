"""Instruments of one vector a sequence, over many sequences at once: RankMe, LiDAR, DiME, InfoNCE."""
