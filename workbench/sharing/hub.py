"""Runs on the Hugging Face Hub: push uploads what `export` writes, pull checks what it downloads as `unpack` does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.runs import CONFIG, METRICS, Run
from workbench.sharing.archive import export, unpack
from workbench.sharing.contents import LONGEST_MESSAGE, accept, allowed, refusing
from workbench.sharing.hugging_face import CODE
from workbench.util.files import check_free
from workbench.util.messages import brief


class SharingError(RuntimeError):
    """The Hub could not be reached, or refused; the message says what can be done."""


def push(
    run: Run | str | Path,
    repo_id: str,
    *,
    hugging_face: bool = False,
    token: str | None = None,
    private: bool = False,
    client: Any = None,
) -> str:
    """Upload a finished run, with its model card, to a model repository; returns the address of the commit.

    The repository is made if there is none. A run that is in it already is replaced; its history keeps it.

    Args:
        run: the run or its folder.
        repo_id: `OWNER/NAME`.
        hugging_face: upload what `export_hugging_face` writes; always so of a fine-tuned model.
        token: an access token of the Hub; by default the one that `hf auth login` has saved, or `HF_TOKEN`.
        private: make the repository private. An existing public repository is then refused.
        client: an `HfApi`, or a stand-in for it.

    Raises:
        ValueError: if the run cannot be exported, or the repository has a wrong name or holds something else.
        SharingError: if the Hub refuses the upload, or cannot be reached.
    """
    _check_name(repo_id)
    client = client if client is not None else _client(token)
    with tempfile.TemporaryDirectory(prefix="workbench-") as temporary:
        folder = export(run, Path(temporary) / "run", hugging_face=hugging_face, repo_id=repo_id)
        with _asking(repo_id):
            # None leaves it to the owner's default, which for some organisations is private.
            client.create_repo(repo_id, token=token, private=private or None, exist_ok=True)
            info = client.model_info(repo_id, token=token)
        there = _replaceable(info, repo_id, private, CODE if (folder / CODE).exists() else METRICS)
        outdated = [name for name in there if not (folder / name).exists()] or None
        upload = {"repo_id": repo_id, "folder_path": folder, "token": token, "delete_patterns": outdated}
        with _asking(repo_id):
            commit = client.upload_folder(**upload, commit_message="A run of workbench")
    return str(commit.commit_url)


def pull(
    repo_id: str, out: str | Path, *, revision: str | None = None, token: str | None = None, client: Any = None
) -> Run:
    """Download a run into a new run folder. Other files of the repository are not downloaded.

    The sizes that the Hub states are checked before anything is downloaded; then everything is checked as in `unpack`.

    Args:
        repo_id: `OWNER/NAME`.
        out: the run folder to make; it must not exist yet, or be empty.
        revision: a branch, tag or commit; by default the latest.
        token: as for `push`; public repositories need none.
        client: an `HfApi`, or a stand-in for it.

    Raises:
        ValueError: if the repository does not hold a run, its name is wrong, or `out` is taken; nothing is left behind.
        SharingError: if the Hub has no such repository, refuses the download, or cannot be reached.
    """
    _check_name(repo_id)
    out = Path(out)
    check_free(out)
    client = client if client is not None else _client(token)
    with _asking(repo_id, revision):
        info = client.model_info(repo_id, revision=revision, files_metadata=True, token=token)
    sizes = {sibling.rfilename: sibling.size for sibling in info.siblings or () if allowed(sibling.rfilename)}
    with refusing(repo_id):
        if None in sizes.values():
            raise ValueError("the Hub does not say how large its files are")
        accept(sizes.items())
    with tempfile.TemporaryDirectory(prefix="workbench-") as temporary:
        for name in sizes:
            with _asking(repo_id, revision):  # the commit whose sizes were checked, even if there is a newer one
                client.hf_hub_download(repo_id, name, revision=info.sha, local_dir=temporary, token=token)
        shutil.rmtree(Path(temporary) / ".cache", ignore_errors=True)  # files of the client
        return unpack(temporary, out, called=repo_id)


def _replaceable(info: Any, repo_id: str, private: bool, sign: str) -> list[str]:
    """The files of a run that a repository holds. Raises ValueError if it must not be pushed to.

    `sign` is a file that is beside the config of what may be replaced.
    """
    names = {sibling.rfilename for sibling in info.siblings or ()}
    if private and not info.private:
        raise ValueError(f"{repo_id} is there already and public; make it private on the Hub, or push elsewhere")
    if CONFIG in names and sign not in names:
        kind = "run" if sign == METRICS else "model that was exported so"
        raise ValueError(f"{repo_id} holds another model, not a {kind}; push to a repository of its own")
    return sorted(filter(allowed, names))


def _client(token: str | None) -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=token)


def _check_name(repo_id: str) -> None:
    """Raise ValueError unless this is `OWNER/NAME`, as the Hub writes names."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
        good = repo_id.count("/") == 1
    except HFValidationError:
        good = False
    if not good:
        raise ValueError(
            f"a repository is OWNER/NAME, of letters, digits, '-', '_' and '.', such as me/sorting, not {repo_id!r}"
        )


@contextmanager
def _asking(repo_id: str, revision: str | None = None) -> Iterator[None]:
    """Turn every error of talking to the Hub into a SharingError of one line; errors about this machine pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise
        raise SharingError(_explain(error, repo_id, revision)) from error


def _explain(error: Exception, repo_id: str, revision: str | None) -> str:
    """What went wrong with the Hub, and what can be done, in a line."""
    from huggingface_hub import errors

    error = _root(error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.GatedRepoError):
        return f"{repo_id} is open only to those whom its owner lets in; ask for access on its page"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo_id} has no revision {revision!r}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no model {repo_id} on the Hub, or it is private and not yours; {log_in} if it is"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub is not asked; unset it to push and pull"
    if status in (401, 403) or isinstance(error, errors.LocalTokenNotFoundError):
        return f"the Hub does not let you do this with {repo_id}; {log_in}, with a token that may write to push"
    if status == 429:
        return "the Hub has had too many requests from here; wait some minutes and try again"
    if status is not None:
        return f"the Hub failed with {repo_id} (HTTP {status}); try again later"
    # The base class of HfHubHTTPError is the error class of the HTTP library that this version of the client uses.
    transport = errors.HfHubHTTPError.__bases__[0]
    if isinstance(error, transport | ConnectionError | TimeoutError | errors.LocalEntryNotFoundError):
        return "the Hub cannot be reached; is this machine online?"
    return brief(f"the Hub's client failed with {repo_id}: {str(error) or type(error).__name__}", LONGEST_MESSAGE)


def _root(error: Exception) -> Exception:
    """The error with the Hub's response, or the offline error, which the client may have wrapped in another error."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    roots = (e for e in causes if isinstance(e, OfflineModeIsEnabled) or getattr(e, "response", None) is not None)
    root = next(roots, error)
    return root if isinstance(root, Exception) else error
