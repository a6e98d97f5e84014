"""``maxmargin segment``: find the regions of a photograph."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from . import UsageError
from .data import plural, told_files
from .methods import METHODS, OPTIONS, build_estimator, positive

SUMMARY = "find the regions of a photograph"
EXAMPLE = "maxmargin segment photo.jpg -k 2 --out regions.png --side-by-side"
SEGMENTERS = ("alternating", "least-squares", "cutting-plane")
SHARED_OPTIONS = ("balance", "n_jobs", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("photo", metavar="PHOTO", help="png or jpeg file")
    parser.add_argument(
        "-k",
        "--n-segments",
        type=positive,
        default=2,
        metavar="K",
        help="number of regions (default: 2); more are found by splitting",
    )
    parser.add_argument(
        "--method",
        choices=[name for name in SEGMENTERS if name in METHODS],
        default="alternating",
        help="two-way clustering method (default: alternating)",
    )
    parser.add_argument(
        "--features",
        choices=["rgb", "lab", "rgb+xy"],
        default="rgb",
        help="colour, colour as the eye sees it, or colour and place (default: rgb)",
    )
    for name in SHARED_OPTIONS:
        parser.add_argument(f"--{name.replace('_', '-')}", **OPTIONS[name])
    parser.add_argument("--out", metavar="FILE", help="write a picture of the regions: .png, .jpg")
    parser.add_argument(
        "--cut-out",
        type=int,
        metavar="J",
        help="write region J on a transparent ground instead of all regions in colour",
    )
    parser.add_argument(
        "--side-by-side",
        action="store_true",
        help="write the photograph, the regions and those of k-means beside each other",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Segment a photograph and write what was asked for."""
    from maxmargin.formats.images import read_image, write_image
    from maxmargin.segmentation import segment_image

    _check_usage(args)
    image = read_image(args.photo)
    start = time.perf_counter()
    try:
        found = segment_image(
            image,
            args.n_segments,
            estimator=_estimator(args),
            features=args.features,
            random_state=args.seed,
            n_jobs=args.n_jobs,
        )
    except ValueError as error:
        raise ValueError(f"{args.photo}: {error}") from error
    seconds = time.perf_counter() - start
    if args.out:
        write_image(args.out, _picture(args, image, found))
    height, width = found.labels.shape
    return {
        "photo": args.photo,
        "method": args.method,
        "features": args.features,
        "height": height,
        "width": width,
        "seconds": seconds,
        "n_segments": len(found.shares),
        "shares": found.shares,
        "colours": [_mean_colour(found, j) for j in range(len(found.shares))],
        "stop_reason": found.model.stop_reason_,
        "wrote": {"picture": args.out} if args.out else {},
    }


def _check_usage(args: argparse.Namespace) -> None:
    from maxmargin.files import DataError, check_suffix, check_writable, resolved
    from maxmargin.formats.images import IMAGE_SUFFIXES

    if args.cut_out is not None and args.side_by_side:
        raise UsageError("--cut-out and --side-by-side are two different pictures; give one")
    if args.cut_out is not None and not 0 <= args.cut_out < args.n_segments:
        raise UsageError(f"--cut-out must lie between 0 and {args.n_segments - 1}")
    if args.out is None:
        if args.cut_out is not None or args.side_by_side:
            raise UsageError("--cut-out and --side-by-side need --out FILE")
        return
    try:
        check_suffix(args.out, IMAGE_SUFFIXES)
        check_writable(args.out)
    except DataError as error:
        raise UsageError(f"--out {error}") from error
    if resolved(args.out) == resolved(args.photo):
        raise UsageError(f"--out {args.out} would overwrite {args.photo}")


def _estimator(args: argparse.Namespace) -> Any:
    from maxmargin.segmentation import picture_settings

    given = {} if args.balance is None else {"balance": args.balance}
    return picture_settings(build_estimator(args.method, 2, {"seed": args.seed}), **given)


def _picture(args: argparse.Namespace, image: Any, found: Any) -> Any:
    import numpy as np

    from maxmargin.segmentation import kmeans_segments

    if args.cut_out is not None:
        return found.cut_out(args.cut_out)
    if not args.side_by_side:
        return found.overlay()
    beside = kmeans_segments(image, args.n_segments, features=args.features, random_state=args.seed)
    gap = np.full((found.pixels.shape[0], 8, 3), 255, np.uint8)
    return np.hstack([found.pixels, gap, found.overlay(), gap, beside.overlay()])


def _mean_colour(found: Any, segment: int) -> str:
    inside = found.labels == segment
    if not inside.any():
        return "-"
    return "#" + "".join(f"{round(c):02x}" for c in found.pixels[inside].mean(axis=0))


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was found."""
    yield (
        f"{result['method']}: {result['width']} x {result['height']} pixels -> "
        f"{plural(result['n_segments'], 'region')} in {result['seconds']:.2f} s"
    )
    yield "  region   share  mean colour"
    for j, (share, colour) in enumerate(zip(result["shares"], result["colours"])):
        yield f"  {j:>6}{share:>8.1%}  {colour}"
    yield told_files(result["wrote"]) if result["wrote"] else "nothing written: add --out FILE"
