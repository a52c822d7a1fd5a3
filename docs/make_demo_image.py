"""Draws docs/images/demo.svg, the picture in the README: one frame of a real, paced demo.

Run it from anywhere with the project installed: `python docs/make_demo_image.py`; takes 20 s.
"""

from __future__ import annotations

import re
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console

from consumers.commands.demo import SECONDS, perform, prepare
from consumers.demo.data import bundled
from consumers.demo.picture import Picture
from consumers.demo.view import frame

FEED = "segments"  # seven classes and a curve that rises: the most to see
SHARE = 0.7  # of the feed that is done in the picture
WIDTH, HEIGHT = 100, 29
IMAGE = Path(__file__).parent / "images" / "demo.svg"


def main() -> None:
    """Run the demo, keep the first picture past `SHARE`, and write it."""
    kept: list[Picture] = []

    def keep(picture: Picture) -> None:
        if not kept and picture.observations >= SHARE * picture.total:
            kept.append(picture)

    with tempfile.TemporaryDirectory() as directory:
        plan = prepare(bundled(FEED), FEED, 50, Path(directory), port=0)
        perform(plan, seconds=SECONDS, live=False, tell=keep)
    console = Console(
        file=StringIO(),
        record=True,
        width=WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(frame(kept[0], WIDTH, HEIGHT))
    IMAGE.parent.mkdir(exist_ok=True)
    # A fixed id keeps the differences between two pictures to what they show.
    svg = console.export_svg(title="headwater demo --feed " + FEED, unique_id="headwater-demo")
    # A picture that fetches fonts would show nothing where that is not allowed.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    IMAGE.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
