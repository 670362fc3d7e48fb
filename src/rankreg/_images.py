"""Image files of whatever origin as 8-bit RGB, upright."""

from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rankreg._untrusted import check_regular

# Others that Pillow knows are not images from a camera, and some start another program.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")


class NoRangeError(ValueError):
    """Pixels of which nobody can say what is black and what is white."""


def read_rgb(source: Path | IO[bytes], side: int) -> Image.Image:
    """One image, turned upright by its EXIF note; a ValueError says why it cannot be read.

    side: a photograph much larger than this may be decoded at a fraction of its size. 16-bit pixels are divided by
    256. 32-bit and floating-point pixels are refused (NoRangeError).
    """
    try:
        if isinstance(source, Path):
            check_regular(source)
        with Image.open(source, formats=FORMATS) as image:
            image.draft("RGB", (side, side))
            return _eight_bit(ImageOps.exif_transpose(image), image.format).convert("RGB")
    except (FileNotFoundError, NoRangeError):
        raise
    except UnidentifiedImageError as error:
        raise ValueError("not an image") from error
    except Exception as error:  # bad bytes make Pillow raise anything
        raise ValueError(str(error) or type(error).__name__) from error


def _eight_bit(image: Image.Image, kind: str | None) -> Image.Image:
    """Pillow would clip wider pixels at 255, and turn fractions into black."""
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PNG"):  # which has 16 bits at most
        return Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
    if image.mode in ("I", "F"):
        wide = "floating-point" if image.mode == "F" else "32-bit"
        raise NoRangeError(
            f"{wide} pixels, which do not say what is black and what is white: save the image with 8 or 16 bits"
        )
    return image
