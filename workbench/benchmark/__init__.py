"""A benchmark of methods: subjects whose truth is written down, methods that look for it, and what they are worth.

subjects/       models whose mechanism is written into their weights
questions.py    what is asked of a subject, and what is right
methods/        who answers
scoring.py      what an answer is worth
run.py          methods run on subjects (`workbench bench run`)
results.py      what came of it, in one file
page.py         the page that it makes
arena.py        unnamed models to make claims about
"""
