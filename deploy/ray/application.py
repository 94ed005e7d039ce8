"""Dragoman on many machines by Ray Serve: replicas of the whole service behind Ray's proxies.

serve run deploy.ray.application:application engines=2 min_replicas=2 max_replicas=8

Settings of the service come from `DRAGOMAN_...` variables of the replicas, as everywhere.
"""

import asyncio
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application, Deployment

from service.app import create_app
from service.settings import Settings

_START_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.1
_CLOSING_SECONDS: Final = 15.0
"""For what comes after the last stream: connections and engines."""


class Options(BaseModel):
    """What `serve run` and `args` of a config file may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engines: int = Field(
        default=2, ge=1, description="engine processes of a replica; it asks Ray for a core each, and one for HTTP"
    )
    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=4, ge=1)
    ongoing_requests: float = Field(default=16, gt=0, description="of a replica, on average: more, and Ray adds one")
    max_ongoing_requests: int = Field(
        default=1000, ge=1, description="that a replica is sent at once; far above its queue, which refuses with 429"
    )


class Dragoman:
    """One replica: the service with its engines. Ray calls its methods."""

    def __init__(self, engines: int) -> None:
        self._failed = False
        self._app = create_app(Settings(replicas=engines), on_failure=self._note_failure)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._app

    def _note_failure(self) -> None:
        self._failed = True

    async def check_health(self) -> None:
        """Raises `RuntimeError` when Ray should start another replica instead.

        The first call is part of the start: no request is sent here until the model has answered. An engine that dies
        later is replaced by the service itself, and is no reason to give up the replica.
        """
        async with asyncio.timeout(_START_SECONDS):
            while not (self._failed or self._app.state.service.library.started):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
        if self._failed:
            raise RuntimeError("an engine could not start; its reason is in the replica's log")


def application(options: Options) -> Application:
    """What `serve run` and `import_path` name."""
    autoscaling: dict[str, Any] = {
        "min_replicas": options.min_replicas,
        "max_replicas": max(options.min_replicas, options.max_replicas),
        "target_ongoing_requests": options.ongoing_requests,
    }
    deploy = serve.deployment(
        name="Dragoman",
        ray_actor_options={"num_cpus": options.engines + 1},
        autoscaling_config=autoscaling,
        max_ongoing_requests=options.max_ongoing_requests,
        # A replica that is taken away lets its streams finish.
        graceful_shutdown_timeout_s=Settings().drain_seconds + _CLOSING_SECONDS,
        health_check_timeout_s=_START_SECONDS,
    )
    deployment: Deployment = deploy(serve.ingress()(Dragoman))
    return deployment.bind(options.engines)
