"""The proof of a Jinja variant once more, with the prompts of a llama-server program, where one is at hand."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from templatefix.cli.inputs import as_file, chat_template_of, program_path
from templatefix.cli.output import CliError, complain, progress_line

if TYPE_CHECKING:
    from templatefix.chat.jinja import JinjaChatTemplate
    from templatefix.rewrite.result import PatchResult
    from templatefix.servers.applied import Applied
    from templatefix.servers.targets import Target

PROGRAM = "llama-server"
_LONGEST = 160  # characters of a server's reason


@dataclass(frozen=True, slots=True)
class LlamaRenders:
    """What a program made of the variant's loops."""

    program: Path
    found: Applied

    def text(self) -> str:
        """A sentence for people."""
        found = self.found
        said = f"{found.prompts} prompts compared with those of {self.program.name}, all equal"
        if not found.prompts:
            said = f"no prompt was compared with {self.program.name}"
        if not found.refused:
            return said
        reason = found.reason if len(found.reason) <= _LONGEST else found.reason[:_LONGEST] + "…"
        return f"{said}; {found.refused} it refuses of the original as well: {' '.join(reason.split())}"

    def to_json(self) -> dict[str, Any]:
        """As `server_renders` in the JSON of `patch`."""
        return {"program": str(self.program), "equal": self.found.prompts, "refused": self.found.refused}


def compared(found: Target, result: PatchResult, named: str | None) -> tuple[PatchResult, LlamaRenders | None]:
    """A variant with what the program makes of it; a variant that it renders otherwise is refused.

    Raises CliError where a program that was named does not work; one on the PATH is passed over with a word.
    """
    from templatefix.rewrite.family import Replacement

    path = program_path(named) if named is not None else shutil.which(PROGRAM)
    if path is None or not result.changed or found.jinja is None or isinstance(result, Replacement):
        return result, None
    program = Path(path).absolute()
    from templatefix.analysis.analyse import analyse
    from templatefix.analysis.loops import chat_loops, core_loops, thinking_loop
    from templatefix.servers.applied import NotAsProved, check_applied
    from templatefix.servers.errors import ServerError

    original = cast("JinjaChatTemplate", chat_template_of(as_file(found)))
    loops = [*(core_loops() if result.tools else ()), *chat_loops(), thinking_loop()]
    show = progress_line()
    show(f"comparing the prompts with those of {program.name}")
    try:
        made = check_applied(program, original.with_text(result.template), original, loops)
    except NotAsProved as error:
        return result.declined(str(error), analyse(original).findings), None
    except ServerError as error:
        sentence = f"the variant could not be compared with a llama-server: {error}"
        if named is not None:
            raise CliError(sentence) from error
        complain(sentence)
        return result, None
    finally:
        show("")
    return result, LlamaRenders(program, made)
