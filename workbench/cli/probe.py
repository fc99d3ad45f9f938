"""`workbench probe`: what can be decoded from runs, and whether it is used; or from Hugging Face models on a text."""

from __future__ import annotations

import argparse
from inspect import signature
from pathlib import Path

from workbench.cli.output import announce, say, show
from workbench.cli.parser import AddCommand, chosen, parse_fields

OF_TEXTS = (
    "next_token, previous_token, first_letter, next_letter, word_part, in_quotes, repeated, line_position, token or "
    "position"
)  # `text_labels.NAMES`, without importing them to show the help


def add(command: AddCommand) -> None:
    parser = command(
        summary="ask what can be decoded from runs, or Hugging Face models on a text, and whether it is used",
        description="Fit probes at every point of the residual for one question, say what they are worth beside their "
        "baselines and controls, and test causally what is decodable. `workbench list probes` shows the questions. "
        f"With --text, probe Hugging Face models instead for a label that the text gives itself ({OF_TEXTS}), or for "
        "a column of a .jsonl, .csv or .tsv file whose column `text` holds the texts; what is decodable is not tested "
        "causally there. Settings of the probe can be given: --l2 1, --kind low_rank --rank 3 …",
        usage="RUN [RUN …] PRESET|LABEL | MODEL [MODEL …] LABEL --text FILE "
        "[--out DIR] [--n N] [--seeds N] [--SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_shared("runs", help="run folders, or folders of runs; or models of Hugging Face")
    parser.add_argument(
        "preset",
        metavar="PRESET|LABEL",
        help="a question, of which `workbench list probes` shows the names; or any label of the task's truth",
    )
    parser.add_argument("--positions", metavar="RULE", help="of a label: labelled, each, scored, delimiter, 3,4 …")
    parser.add_shared("--out", help="write figures and numbers there too")
    parser.add_argument(
        "--save-directions",
        type=Path,
        metavar="FILE",
        dest="directions",
        help="of one label: a new file of its classes' directions, for `inspect --basis` and `generate --basis`",
    )
    parser.add_argument("--n", type=int, help="sequences, three in ten to try the probe on (default: the preset's)")
    parser.add_argument("--kind", help="kind of probe: logistic, ridge, nearest_mean, low_rank, mlp or regression")
    parser.add_shared("--step")
    parser.add_shared("--seed", help="seed of the sequences, splits and controls (default: 0)")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="so many seeds, intervals over them (default: 1)"
    )
    parser.add_argument("--no-causal", action="store_true", help="do not test what is decodable")
    parser.add_shared(
        "--text", help="of models: the text to probe them on, in UTF-8, a file of texts with labels, or a prompt set"
    )
    parser.add_shared("--length")
    parser.add_shared("--json", "--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    announce("probing", options.runs, options.quiet)
    from workbench.probes import ask
    from workbench.probes.report import probe
    from workbench.util.files import check_free

    settings = parse_fields(fields)
    no_settings = {*signature(ask).parameters, "label", "points"}  # the preset decides the last two
    unknown = next((name for name in settings if name in no_settings), None)
    if unknown is not None:
        raise ValueError(f"unrecognised argument '--{unknown}'; see `workbench probe --help`")
    if options.out is not None:
        check_free(options.out)
    if options.text is None and options.length is not None:
        raise ValueError("--length is of models that are probed on a text; give --text FILE too")
    if options.text is not None and options.step is not None:
        raise ValueError("--step is of runs, not of models that are probed on a text; leave it or --text out")
    own = (
        {"step": options.step, "causal": not options.no_causal} if options.text is None else {"length": options.length}
    )
    shared = chosen(options, "text", "positions", "n", "kind", "seed", "seeds", "directions")
    answers = probe(options.runs, options.preset, progress=not options.quiet, **shared, **own, **settings)
    show(answers, options)
    if options.directions is not None and not options.json:
        say(f"\nnamed directions: {options.directions}")
    if options.out is not None:
        answers.save(options.out)
        if not options.json:
            say(f"\nfigures and numbers: {options.out}")
