"""A progress bar for what takes more than a moment; silent where nobody watches."""

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rankreg._terminal import Terminal


def progress_bar(*, in_bytes: bool = False) -> Progress:
    """A bar on the standard error, gone when done; use as a context manager."""
    console = Terminal(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
