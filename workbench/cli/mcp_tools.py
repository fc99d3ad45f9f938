"""The tools of `workbench mcp`: the commands' own functions, on what lies under one folder.

A tool's docstring is what a client reads of it, so each says the units of what it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from workbench.util.files import check_contents, check_within, is_run, read_text

if TYPE_CHECKING:
    from workbench.runs import Run

LARGEST = 2**18  # bytes of a file that is read
READ = (".csv", ".json", ".jsonl", ".toml")

Form = Annotated[
    Literal["words", "json"],
    Field(description="`words`: sentences and tables; `json`: every number, of the form that `json_schemas` describes"),
]
RunName = Annotated[str, Field(description="a run folder by its path under the root, such as `chain`; see list_runs")]
ModelName = Annotated[
    str, Field(description="a run folder, or a Hugging Face model's folder or GGUF file, by its path under the root")
]
Kind = Annotated[
    str | None,
    Field(description="the kind of question pair, which the error for a wrong one lists; default: the first"),
]
Pairs = Annotated[
    str | None,
    Field(
        description="of a Hugging Face model: a prompt set (list_parts of `prompts`), or a file of pairs under the root"
    ),
]
Count = Annotated[int, Field(ge=2, le=4096)]
Seed = Annotated[int, Field(ge=0, description="of the sequences")]


class Tools:
    """What a client may do on a folder without writing.

    Args:
        root: the folder, outside which nothing is read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def offered(self) -> tuple[Callable[..., str], ...]:
        """The tools, none of which writes anything."""
        listing = (self.list_runs, self.table, self.list_parts, self.json_schemas, self.read_finding, self.read_file)
        return (*listing, self.inspect, self.probe, self.circuit, self.patch, self.heads, self.check, self.generate)

    def list_runs(self, where: list[str] | None = None, sort: str | None = None, form: Form = "words") -> str:
        """List the runs directly under the root: task, status, training step, and in JSON every setting and figure.

        Accuracies are shares of 1, losses nats per scored token, seconds are of training. `where` keeps those that meet
        every condition, such as `task.name=sorting` or `accuracy>0.9`; `sort` is a column such as `accuracy`.
        """
        from workbench.cli.runs import runs_table

        listed = runs_table(self.root, where=where or [], sort=sort)
        if form == "json":
            return listed.json()
        problems = [f"cannot be read: {problem}" for problem in listed.problems]
        return "\n".join([listed.says, *problems]).strip() or "no run under the root meets that"

    def table(
        self,
        runs: Annotated[list[str], Field(description="run folders, or folders of runs; `.` is the root itself")],
        by: Annotated[
            str, Field(description="settings with commas between them, such as model.attention,model.n_layers")
        ],
        metric: str = "accuracy",
        against: Annotated[str | None, Field(description="the group that all others are compared with")] = None,
        form: Form = "words",
    ) -> str:
        """Means of a logged figure over seeds, by settings, with 95 % intervals over seeds; in units of the figure.

        With `against` also each group's difference, and p adjusted after Holm.
        """
        from workbench.report.results_table import table

        results = table([self.place(name, root_too=not is_run(self.root)) for name in runs], by, metric, against)
        return results.text("json" if form == "json" else "markdown")

    def list_parts(
        self,
        kind: Annotated[
            str, Field(description="presets, tasks, variants, instruments, mechanisms, probes, prompts, …")
        ],
    ) -> str:
        """What exists of one kind: questions for probe, instruments and mechanisms for inspect, presets for train."""
        from workbench.cli.list import listed

        return listed(kind)

    def json_schemas(
        self, command: Annotated[str, Field(description="such as `patch`, as the tool is named; `runs` for list_runs")]
    ) -> str:
        """The JSON Schema of what a tool returns with form `json`. Numbers that are not known are null."""
        import json

        from workbench.cli.schemas import SCHEMAS, schema_of
        from workbench.util.lookup import lookup

        lookup(SCHEMAS, command, "command")
        return json.dumps(schema_of(command), indent=1)

    def read_finding(self, run: RunName, form: Form = "words") -> str:
        """What was found of a run when it was last looked at: claims beside controls, and what answers need.

        Rates are shares of cases with 95 % intervals. An error says so where nothing is kept: then use inspect.
        """
        from workbench.inspection import found
        from workbench.judgement.words import findings as words

        kept = found.kept(self.opened(run))
        if kept is None:
            raise ValueError(f"nothing is kept of {run}; the tool inspect measures it")
        if form == "json":
            return kept.model_dump_json(indent=1)
        told = [each.text for each in words.statements(kept.findings)]
        return "\n".join(filter(None, [*told, words.focus(kept.findings.focus), words.how_sure([kept.findings])]))

    def read_file(self, path: Annotated[str, Field(description="under the root, such as chain/config.json")]) -> str:
        """Read a JSON, JSON lines, CSV or TOML file under the root, such as numbers that a report has written."""
        place = self.place(path)
        if place.suffix not in READ:
            raise ValueError(f"{path} is not read: a file to read ends in {', '.join(READ)}")
        if place.is_file() and place.stat().st_size > LARGEST:
            raise ValueError(f"{path} has {place.stat().st_size:,} bytes, and at most {LARGEST:,} are read; see table")
        return read_text(place, LARGEST)

    def inspect(
        self,
        run: RunName,
        only: Annotated[
            list[str] | None, Field(description="instruments and mechanisms (see list_parts); default: all that apply")
        ] = None,
        n: Annotated[Count, Field(description="sequences of each test condition")] = 64,
        seed: Seed = 0,
        form: Form = "words",
    ) -> str:
        """Measure a run on held-out sequences, and judge each claim about how it solves its task beside its controls.

        Shares are in per cent in words and of 1 in JSON, entropy is in nats, every mean has its 95 % interval. Writes
        nothing. All that applies takes minutes: name what is wanted in `only`.
        """
        from workbench.inspection import inspect_run
        from workbench.report import check_measured, write

        inspected = inspect_run(self.opened(run), n=n, seed=seed, only=only or ())
        check_measured([inspected])
        return _told(write([inspected], None), form)

    def probe(
        self,
        run: RunName,
        question: Annotated[
            str, Field(description="a question (list_parts of `probes`), or a label of the run's task")
        ],
        n: Annotated[Count | None, Field(description="sequences; default: the question's own")] = None,
        causal: Annotated[
            bool, Field(description="test causally too whether what is decodable is used (slow)")
        ] = False,
        seed: Seed = 0,
        form: Form = "words",
    ) -> str:
        """Ask what can be decoded from the residual stream at every layer, beside baselines and re-initialised models.

        Figures are the share decoded (per cent in words, of 1 in JSON), or R² of a regression, with 95 % intervals.
        """
        from workbench.probes.report import probe

        return _told(probe([self.opened(run)], question, n=n, causal=causal, seed=seed), form)

    def circuit(
        self,
        model: ModelName,
        kind: Kind = None,
        pairs: Pairs = None,
        n: Annotated[Count | None, Field(description="pairs; default: 64, of a file all")] = None,
        seed: Seed = 0,
        form: Form = "words",
    ) -> str:
        """Find which edges carry the answer on half of some question pairs, and test on the others whether they do.

        Scores are in units of the metric (logit difference); faithfulness is the share of the metric that is kept.
        """
        from workbench.report.circuits import circuit

        return _told(circuit(self.model(model), kind, pairs=self.given(pairs), n=n, seed=seed), form)

    def patch(
        self,
        model: ModelName,
        kind: Kind = None,
        pairs: Pairs = None,
        n: Annotated[Count | None, Field(description="pairs; default: 64, of a file all")] = None,
        direction: Literal["denoise", "noise"] = "denoise",
        seed: Seed = 0,
        form: Form = "words",
    ) -> str:
        """How much of the answer each layer, position and head brings back, patched between two questions.

        Figures are shares of the gap in logit difference between the questions: 0 is nothing, 1 all. Beside them stand
        pairs that change nothing relevant.
        """
        from workbench.report.patching import patch

        patched = patch(self.model(model), kind, pairs=self.given(pairs), n=n, direction=direction, seed=seed)
        return _told(patched, form)

    def heads(
        self,
        model: ModelName,
        text: Annotated[
            str | None, Field(description="of a Hugging Face model: a prompt set, or a text file under the root")
        ] = None,
        n: Annotated[Count, Field(description="sequences")] = 64,
        top: Annotated[int, Field(ge=1, description="heads of each role")] = 2,
        seed: Seed = 0,
        form: Form = "words",
    ) -> str:
        """Which head does what: its role, beside re-initialised models, and what is lost without it.

        Figures are shares of a head's attention, and of the right answers that turn wrong when it writes nothing.
        """
        from workbench.report.heads import heads

        return _told(heads(self.model(model), text=self.given(text), n=n, top=top, seed=seed), form)

    def check(self, model: ModelName, form: Form = "words") -> str:
        """Whether a hooked model is the model: hooks fire, logits are the same, and every kind of edit changes them.

        Differences are shares of the largest logit.
        """
        from workbench.report.model_check import check

        return _told(check(self.model(model)), form)

    def generate(
        self,
        model: ModelName,
        prompt: Annotated[str, Field(description="a text; of a run words of its task")],
        edits: Annotated[
            list[list[str]] | None,
            Field(description="[head, 0.2], [write, blocks.0.hook_mlp_out], [cut, QUERY, KEY] or [patch, POINT, TEXT]"),
        ] = None,
        tokens: Annotated[int, Field(ge=1, le=256, description="the most new tokens")] = 20,
        form: Form = "words",
    ) -> str:
        """What a model writes behind a prompt under edits, beside what it writes without: the likeliest tokens."""
        from workbench.report.generation import generate

        return _told(generate(self.model(model), prompt, edits=edits or (), tokens=tokens), form)

    def place(self, name: str, *, root_too: bool = False) -> Path:
        """The path that a client names. Raises ValueError if it is outside the root, or leads there by a link."""
        path = self.root / name
        check_within(path, self.root)
        if not root_too and path.resolve() == self.root.resolve():
            raise ValueError(f"{name!r} is the root itself; name what is in it")
        return path

    def opened(self, name: str) -> Run:
        """The run that a client names."""
        from workbench.runs import load_run

        return load_run(self.place(name))

    def model(self, name: str) -> Any:
        """A run, or the path of a model of Hugging Face: never a name that is looked up on the hub."""
        path = self.place(name)
        if is_run(path) or not path.exists():
            return self.opened(name)
        if path.is_dir():
            check_contents(path)
        return path

    def given(self, name: str | None) -> str | Path | None:
        """The name of a prompt set, or the path of a file under the root."""
        from workbench.tasks.prompt_sets import PROMPT_SETS

        return name if name is None or (name in PROMPT_SETS and not (self.root / name).exists()) else self.place(name)


def _told(result: Any, form: str) -> str:
    told: str = result.json() if form == "json" else result.says
    return told
