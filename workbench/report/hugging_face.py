"""Models of Hugging Face measured on a text and written up, as runs are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.capture.directions import Directions
from workbench.inspection import Inspected, Settings, inspect_model
from workbench.instruments import INSTRUMENTS
from workbench.report import NOTHING_ASKED, Report, check, check_measured, own_bases, write_report
from workbench.report.numbers import only_report
from workbench.tasks.prompt_sets import named
from workbench.tasks.text_file import text_parts
from workbench.util.files import is_run
from workbench.util.lookup import tell_apart
from workbench.util.messages import harmless


def inspect_text(
    models: Sequence[str | Path],
    text: str | Path,
    *,
    out: str | Path | None = None,
    n: int = 256,
    length: int | None = None,
    layers: Sequence[int] | None = None,
    seed: int = 0,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    basis: str | Path | None = None,
    export: Sequence[str] = (),
    width: str | None = None,
    progress: bool = False,
) -> Report:
    """Measure one Hugging Face model, or several side by side, on a text; write the same report as of runs.

    Args:
        models: folders that `save_pretrained` wrote, GGUF files, or names on the hub; all stay in memory.
        text: a text file in UTF-8, of which the first n sequences are taken; or the name of a prompt set.
        out, length: where the report goes (by default `default_folder`); tokens in a sequence (256, or the context).
        layers, seed: to look at, 0-based, by default all; of the controls, and of the order of the sequences.
        only, settings, basis, export, width, progress: as `inspect`.

    Raises:
        ValueError: if a model cannot be loaded, the text is too short, a layer does not exist, or as `inspect`.
    """
    check(n, export, width)
    sources, text = [str(model) for model in models], Path(text)
    called = names(sources)
    if named(text) is None:
        next(text_parts(text), None)  # a file that cannot be read is said before a model is loaded
    folder = default_folder(sources[0]) if out is None else Path(out)
    options = {"layers": layers, "seed": seed, "only": only, "settings": settings, "progress": progress}
    with only_report(folder, called):
        inspected = [_one(*one, text, (n, length), basis, options) for one in zip(sources, called, strict=True)]
        check_measured(inspected)
        asked = NOTHING_ASKED._replace(own_bases=own_bases(inspected, basis, n, seed))
        return write_report(folder, inspected, asked, (export, width), _how_made(inspected, text, n, seed))


def _how_made(inspected: Sequence[Inspected], text: Path, n: int, seed: int) -> str:
    """Which sequences of a text were measured on."""
    size = f"sequences of {len(inspected[0].sample.tokens[0])} tokens" if named(text) is None else "prompts"
    return f"the first {size} of {harmless(text.name)}, {n} at most, seed {seed}"


def _one(
    source: str, name: str, text: Path, size: tuple[int, int | None], basis: str | Path | None, options: dict[str, Any]
) -> Inspected:
    """One model loaded and measured; `size` is the most sequences, and the tokens of each."""
    from workbench.models.pretrained import load_model
    from workbench.models.pretrained.text_file import file_sequences

    n, length = size
    model = load_model(source, progress=options["progress"])
    if basis is not None:
        Directions.read(basis, model.config.d_model)  # what is wrong with it is said before anything is measured
    fits = any(hasattr(INSTRUMENTS.get(name), "fit") for name in options["only"])  # on other sequences, first
    sequences = file_sequences(model, text, length=length, n=n, training=n if fits else 0)
    return inspect_model(model, sequences, n=n, name=name, causal=False, **options)


def names(sources: Sequence[str]) -> list[str]:
    """A name for each model: the last part of its path, or all of it where that does not tell them apart.

    The quantisation of one in a file stands beside it.

    Raises:
        ValueError: if a model is named twice or is a run folder, or a file is none of a model.
    """
    from workbench.models.pretrained.loading import open_file

    paths = [Path(source).resolve() for source in sources]
    if len(set(paths)) < len(paths):
        raise ValueError(f"a model was named twice; these are {', '.join(sources)}")
    for source in sources:
        if is_run(Path(source)):
            raise ValueError(
                f"{source} is a run folder, which is measured on sequences of its own task: leave --text out, or give "
                "models of Hugging Face alone"
            )
    short, long = [], []
    for source in sources:
        path = Path(source).expanduser()
        short.append(open_file(path).title if path.is_file() else path.resolve().name)
        long.append(str(path.with_name(short[-1])) if path.is_file() else source)
    return tell_apart([harmless(name) for name in (short if len(set(short)) == len(short) else long)])


def default_folder(source: str) -> Path:
    """Where a report goes by default: in a model's folder, or, of one from the hub, under the current folder."""
    folder = Path(source).expanduser()
    return folder / "inspection" if folder.is_dir() else Path("inspection") / folder.name
