"""``maxmargin segment``: find the regions of a photograph."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from maxmargin._files import plural, resolved

from . import UsageError
from .data import check_output, table_of, told_files
from .methods import add_options, build_estimator, given_options, positive

SUMMARY = "find the regions of a photograph"
EXAMPLE = "maxmargin segment photo.jpg -k 2 --out regions.png --side-by-side"
SEGMENTERS = ("alternating", "least-squares", "cutting-plane")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("photo", metavar="PHOTO", help="png or jpeg file")
    regions = "number of regions (default: 2); more are found by splitting"
    add("-k", "--n-segments", type=positive, default=2, metavar="K", help=regions)
    method = "two-way clustering method (default: alternating)"
    add("--method", choices=SEGMENTERS, default="alternating", help=method)
    features = "colour, colour as the eye sees it, or colour and place (default: rgb)"
    add("--features", choices=["rgb", "lab", "rgb+xy"], default="rgb", help=features)
    add("--out", metavar="FILE", help="write a picture of the regions: .png, .jpg")
    cut_out = "write region J on a transparent ground instead of all regions in colour"
    add("--cut-out", type=int, metavar="J", help=cut_out)
    beside = "write the photograph, the regions and those of k-means beside each other"
    add("--side-by-side", action="store_true", help=beside)
    add_options(parser, SEGMENTERS, only=("balance", "random_state", "n_jobs"))


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Segment a photograph and write what was asked for."""
    from maxmargin._data.images import read_image, write_image
    from maxmargin.segmentation import picture_settings, segment_image

    _check_usage(args)
    given = given_options(args, SEGMENTERS)
    estimator = picture_settings(build_estimator(args.method, 2, given), **given)
    image = read_image(args.photo)
    start = time.perf_counter()
    try:
        found = segment_image(
            image,
            args.n_segments,
            estimator=estimator,
            features=args.features,
            random_state=args.random_state,
            n_jobs=given.get("n_jobs"),
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
        "colours": _mean_colours(found),
        "stop_reason": found.model.stop_reason_,
        "wrote": {"picture": args.out} if args.out else {},
    }


def _check_usage(args: argparse.Namespace) -> None:
    from maxmargin._data.images import IMAGE_SUFFIXES

    if args.cut_out is not None and args.side_by_side:
        raise UsageError("--cut-out and --side-by-side are two different pictures; give one")
    if args.cut_out is not None and not 0 <= args.cut_out < args.n_segments:
        raise UsageError(f"--cut-out must lie between 0 and {args.n_segments - 1}")
    if args.out is not None:
        check_output("--out", args.out, IMAGE_SUFFIXES, {resolved(args.photo): args.photo})
    elif args.cut_out is not None or args.side_by_side:
        raise UsageError("--cut-out and --side-by-side need --out FILE")


def _picture(args: argparse.Namespace, image: Any, found: Any) -> Any:
    import numpy as np

    from maxmargin.segmentation import kmeans_segments

    if args.cut_out is not None:
        return found.cut_out(args.cut_out)
    if not args.side_by_side:
        return found.overlay()
    options = {"features": args.features, "random_state": args.random_state}
    beside = kmeans_segments(image, args.n_segments, **options)
    gap = np.full((found.pixels.shape[0], 8, 3), 255, np.uint8)
    return np.hstack([found.pixels, gap, found.overlay(), gap, beside.overlay()])


def _mean_colours(found: Any) -> list[str]:
    flat = found.flat()
    parts = [flat[found.labels == segment] for segment in range(len(found.shares))]
    return [f"#{part[0].tobytes().hex()}" if len(part) else "-" for part in parts]


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found."""
    yield (
        f"{result['method']}: {result['width']} x {result['height']} pixels -> "
        f"{plural(result['n_segments'], 'region')} in {result['seconds']:.2f} s"
    )
    rows = enumerate(zip(result["shares"], result["colours"]))
    columns = ("region", "share", "mean colour")
    yield table_of(columns, [(str(j), f"{share:.1%}", colour) for j, (share, colour) in rows])
    yield told_files(result["wrote"]) if result["wrote"] else "nothing written: add --out FILE"
