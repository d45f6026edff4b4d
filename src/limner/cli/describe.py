"""``limner describe``: captions the pictures of a library with a vision model that the user runs.

Parses options, shows progress and prints the report; `limner.library.Library` does the work.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.main import Flag, emit, emit_json, emit_report, say
from limner.errors import ConfigError, DataError, counted
from limner.progress import IndexProgress


def describe(
    *,
    library: Path | None = None,
    endpoint: str | None = None,
    model: str | None = None,
    allow_remote: Flag = False,
    every: Annotated[bool, Parameter(name="--all", negative="")] = False,
    limit: int | None = None,
    remove: Flag = False,
    timeout_s: float = 120.0,
    json: Flag = False,
) -> None:
    """Caption the pictures of a library with a vision model that you run yourself.

    The model is called through the chat API that Ollama, llama.cpp, LM Studio and vLLM offer. It gets a
    small copy of each picture and answers with a sentence and keywords, which are stored in the library under
    that model's name; your files do not change. Only the endpoint that you name is contacted. If it needs a
    key, set the environment variable LIMNER_ENDPOINT_KEY. You can interrupt the command at any time; the next
    run continues where it stopped.

    Example: limner describe --endpoint http://127.0.0.1:11434/v1 --model qwen2.5vl:7b

    Example: limner describe --remove

    Parameters
    ----------
    library
        Path or URL of the library. Default: $LIMNER_LIBRARY; if unset, the library used last (see 'limner
        library').
    endpoint
        URL of the chat API, usually ending in /v1.
    model
        Name of the model at the endpoint.
    allow_remote
        Allow an endpoint on another machine. Your pictures are sent there.
    every
        Describe pictures that already have captions too. By default, only pictures without captions from
        their files or from you are described; a file name does not count. Pictures for which you wrote
        captions are always skipped.
    limit
        Number of pictures to describe in this run. Default: all.
    remove
        Remove the descriptions; with --model, only those by that model. No endpoint is needed.
    timeout_s
        Timeout of one answer, in seconds.
    json
        Print the report as JSON.
    """
    from limner.library import Library

    if remove:
        if endpoint is not None:
            raise ConfigError("--remove needs no endpoint; leave --endpoint out")
        opened = Library.open(library, note=say)
        opened.mark_as_last_used()
        count = opened.remove_descriptions(model)
        if json:
            emit_json({"removed": count})
        else:
            emit(f"descriptions removed: {counted(count, 'picture')}")
        return
    if endpoint is None or model is None:
        raise ConfigError(
            "describe: name --endpoint and --model; example: --endpoint http://127.0.0.1:11434/v1 --model"
            " qwen2.5vl:7b"
        )
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit}: expected 1 or more")
    from limner.describe.chat import Chat

    chat = Chat(endpoint, model, allow_remote=allow_remote, timeout_s=timeout_s)
    opened = Library.open(library, note=say)
    opened.mark_as_last_used()
    with IndexProgress() as progress:
        report = opened.describe(chat, every=every, limit=limit, progress=progress)
    if not (report.stopped and not report.described and not report.failed):
        emit_report(report, report.lines(), as_json=json)
    if report.interrupted:
        raise KeyboardInterrupt
    if report.stopped:
        raise DataError(report.stopped)
    if report.failed and not report.described:
        raise DataError(
            f"no picture could be described ({counted(len(report.failed), 'failure')}); see the reasons above"
        )
