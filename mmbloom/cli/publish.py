"""``mmbloom publish``: a finished file becomes the next generation under a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.cli import output, streams
from mmbloom.cli.failures import sealing_is_a_command
from mmbloom.cli.options import check_output
from mmbloom.cli.progress import progress

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Copy a sealed filter file to PATH, and replace the filter there in one step.
Each byte is compared with its checksum on the way. Readers of the old file keep
it until they reload. Readers that follow the path change to the new file.
"""
EPILOG = """\
example:
  mmbloom publish passwords.mmb filters/current.mmb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("new", metavar="FILE", help="the sealed filter file; it stays as it is")
    parser.add_argument("path", metavar="PATH", help="where it will be")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no summary")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publish the file and say which generation it is."""
    from mmbloom import publish

    check_output(arguments.path)
    with sealing_is_a_command(arguments.new), progress(quiet=arguments.quiet) as show:
        generation = publish(
            arguments.path,
            arguments.new,
            progress=show,
        )
    if arguments.json:
        output.print_json({"path": arguments.path, "generation": generation})
    elif not arguments.quiet:
        streams.write(f"{output.printable(arguments.path)}: generation {generation}\n")
    return 0
