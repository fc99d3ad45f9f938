"""The input's tokens, with the model's answers beside the right ones."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.capture import Capture
from workbench.tasks import correct


def show(seen: Capture) -> None:
    st.subheader("Input and answers")
    task, batch = seen.subject.task, seen.batch
    scored, right = batch.loss_mask[0].tolist(), correct(seen.logits, batch)[0].tolist()
    rows = {"token": task.words(batch.tokens[0])}
    one_class = batch.targets.ndim == 2
    if one_class:
        said, wanted = task.words(seen.logits[0].argmax(-1)), task.words(batch.targets[0])
        rows["model's answer"] = [word if asked else "" for word, asked in zip(said, scored, strict=True)]
        rows["right answer"] = [word if asked else "" for word, asked in zip(wanted, scored, strict=True)]
    marks = [("✓" if share == 1 else "✗") if one_class else f"{share:.0%}" for share in right]
    rows["right?"] = [mark if asked else "" for mark, asked in zip(marks, scored, strict=True)]
    columns = [str(position) for position in range(len(scored))]
    narrow = {column: st.column_config.TextColumn(width=46) for column in columns}
    st.dataframe(pd.DataFrame(rows, index=columns).T, column_config=narrow)
    n_right = sum(share == 1 for share, asked in zip(right, scored, strict=True) if asked)
    how = "the likeliest token" if one_class else "the share of its chain found among as many of the likeliest tokens"
    st.caption(
        f"{n_right} of {sum(scored)} answers are wholly right. Columns are positions; an answer is {how}, given the "
        "true tokens up to its position. It does not show what the model would write on its own."
    )
