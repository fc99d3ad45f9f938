"""Start the explorer's server, with what a first page needs loaded before it answers."""

from __future__ import annotations

import argparse
from pathlib import Path

LIGHT, DARK = "#0072B2", "#56B4E9"  # of the palette of the figures


def flags(port: int, headless: bool) -> list[str]:
    """Settings of the server: this machine alone, nothing phoned home, no watching of source files."""
    settings = {
        "server.address": "localhost",
        "server.port": port,
        "server.headless": str(headless).lower(),
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "viewer",
        "client.showErrorDetails": "none",
        "global.disableWidgetStateDuplicationWarning": "true",  # a click moves a field that has a default
        "theme.light.primaryColor": LIGHT,
        "theme.dark.primaryColor": DARK,
    }
    return [part for name, value in settings.items() for part in (f"--{name}", str(value))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="workbench explore")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--headless", action="store_true")
    options = parser.parse_args()

    from streamlit.web.cli import main as streamlit

    import app.panel
    import app.sidebar
    import workbench.models.hooked  # noqa: F401  (with TransformerLens the slowest import of all)

    script = Path(app.panel.__file__).with_name("main.py")
    streamlit(["run", str(script), *flags(options.port, options.headless), "--", "--root", str(options.root)])


if __name__ == "__main__":
    main()
