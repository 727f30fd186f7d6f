"""Refuses what the dispatcher's hooks can't cover: graphs in which torch.compile passes operators by the dispatcher.

In: nothing but inductor's settings, when it compiles. Out: an error that names the setting. Invariant: the hook that
inductor had for this (`post_grad_custom_pre_pass`) still runs, and is put back when the guard goes.
"""

from typing import Any

from accord.terms.errors import BadInput

# Inductor's settings under which compiled code calls kernels without the dispatcher.
BYPASSES = {
    "freezing": "weights are packed for oneDNN, whose kernels aren't called through the dispatcher",
    "cpp_wrapper": "compiled C++ calls kernels without the dispatcher",
}


def refuse_bypasses() -> None:
    """BadInput where a setting of inductor is on that would pass by the reroute."""
    from torch._inductor import config

    for name, why in BYPASSES.items():
        if getattr(config, name):
            raise BadInput(
                field=f"torch._inductor.config.{name}",
                value=True,
                problem=f"quirks are applied, and {why}",
                fix=f"set {name} to False, or remove the quirks first",
            )


class Guard:
    """Watches every compilation from `install` to `remove`."""

    def __init__(self) -> None:
        self._before: Any = None
        self._ours: Any = None

    def install(self) -> None:
        """BadInput if a setting is on already; otherwise each compilation is asked."""
        from torch._inductor import config
        from torch._inductor.custom_graph_pass import CustomGraphPass

        refuse_bypasses()
        self._before = before = config.post_grad_custom_pre_pass
        passes: tuple[Any, ...] = tuple(before) if isinstance(before, tuple | list) else (before,)

        class Watch(CustomGraphPass):
            def __call__(self, graph: Any) -> None:
                refuse_bypasses()
                for one in passes:
                    if one is not None:
                        one(graph)

            def uuid(self) -> Any:
                # Part of the key of inductor's cache: what was compiled unguarded isn't taken for guarded.
                known = [one.uuid() if isinstance(one, CustomGraphPass) else repr(one) for one in passes]
                return ("accord reroute", *known)

        self._ours = Watch()
        config.post_grad_custom_pre_pass = self._ours

    def remove(self) -> None:
        """Puts back what was there, unless someone else has put a pass there since: theirs stays."""
        from torch._inductor import config

        if self._ours is not None and config.post_grad_custom_pre_pass is self._ours:
            config.post_grad_custom_pre_pass = self._before
        self._ours = None
