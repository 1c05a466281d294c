"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

SomeTargets = Annotated[
    list[str] | None, typer.Argument(metavar="TARGET…", help="Models, files, llama-servers (http://…), or - for stdin.")
]
SomeTarget = Annotated[str | None, typer.Argument(metavar="TARGET", help="A model, a file, or - for standard input.")]
All = Annotated[bool, typer.Option("--all", help="Every model on the server.")]
Kind = Annotated[
    str | None,
    typer.Option(
        "--as",
        "--kind",
        metavar="KIND",
        help="What TARGET is: model, go, jinja, modelfile or gguf; by default what is there.",
    ),
]
Format = Annotated[str, typer.Option("--format", metavar="text|json", help="How to write the result.")]
Select = Annotated[list[str] | None, typer.Option(metavar="CODES", help="Only these rules, such as TF101,TF102.")]
Ignore = Annotated[list[str] | None, typer.Option(metavar="CODES", help="All rules but these.")]
Date = Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="The day that templates see.")]
Bos = Annotated[str | None, typer.Option(metavar="TEXT", help="The model's first token, for Jinja templates.")]
Eos = Annotated[str | None, typer.Option(metavar="TEXT", help="The model's last token, for Jinja templates.")]
Rules = Annotated[list[str] | None, typer.Option(metavar="DIR", help="A folder with more rules of your own.")]
