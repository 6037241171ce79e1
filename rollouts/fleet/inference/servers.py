"""Select the inference server of a run."""

import os
from collections.abc import Mapping

from rollouts.fleet.inference.contract import InferenceServer
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.inference_servers import SETTING, InvalidInferenceServers, parse
from runs.config.rules.language_config import LanguageConfig


def inference_server_for(
    config: LanguageConfig, settings: Mapping[str, str] = os.environ, *, is_fixed: bool = False
) -> InferenceServer | None:
    """Return the server named by `config`; None if workers generate themselves.

    Args:
        config: Language configuration of the run.
        settings: Environment variables of this machine.
        is_fixed: Whether the server keeps its weights, as for an evaluation.

    Raises:
        PolicyDoesNotFit: If the server is not configured on this machine.
    """
    if not config.inference:
        return None
    try:
        known = parse(settings.get(SETTING, ""))
        if config.inference not in known:
            there_are = ", ".join(sorted(known)) or "none"
            raise PolicyDoesNotFit(
                "language.inference",
                f"{config.inference!r} is not in this machine's {SETTING}; known: {there_are}",
            )
        from rollouts.fleet.inference.http_client import HttpInferenceServer

        return HttpInferenceServer(known[config.inference], is_fixed=is_fixed)
    except InvalidInferenceServers as error:
        raise PolicyDoesNotFit("language.inference", str(error)) from error
