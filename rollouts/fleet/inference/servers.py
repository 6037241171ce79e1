"""Select the inference server of a run."""

import os
from collections.abc import Mapping

from rollouts.fleet.inference.contract import InferenceServer
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.servers import (
    INFERENCE_SERVERS,
    InvalidInferenceServers,
    parse_inference_servers,
    unsupported,
)


def inference_server_for(
    config: LanguageConfig,
    settings: Mapping[str, str] = os.environ,
    *,
    run: str = "",
    is_fixed: bool = False,
) -> InferenceServer | None:
    """Return the server named by `config`; None if workers generate themselves.

    Args:
        config: Language configuration of the run.
        settings: Environment variables of this machine.
        run: Name or key of the run that trains the weights.
        is_fixed: Whether the server keeps its weights, as for an evaluation.

    Raises:
        PolicyDoesNotFit: If the server is not configured on this machine, or does not support the
            run's adapter or the lessons' sampling.
    """
    if not config.inference:
        return None
    try:
        known = parse_inference_servers(settings.get(INFERENCE_SERVERS, ""))
        if config.inference not in known:
            there_are = ", ".join(sorted(known)) or "none"
            raise PolicyDoesNotFit(
                "language.inference",
                f"{config.inference!r} is not in this machine's {INFERENCE_SERVERS}; "
                f"known: {there_are}",
            )
        server = known[config.inference]
        if not is_fixed and (wrong := unsupported(config, kind=server.kind)):
            raise PolicyDoesNotFit(*wrong)
        from rollouts.fleet.inference.http_client import HttpInferenceServer

        return HttpInferenceServer(server, run=run, is_fixed=is_fixed, adapter=config.model.adapter)
    except InvalidInferenceServers as error:
        raise PolicyDoesNotFit("language.inference", str(error)) from error
