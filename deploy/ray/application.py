"""Dragoman on many machines with Ray Serve: replicas of the whole service behind Ray's proxies.

serve run deploy.ray.application:application engines=1 min_replicas=2 max_replicas=8

The replicas' `DRAGOMAN_...` variables set the service's settings, as everywhere.
"""

import asyncio
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application, Deployment

from service.server.app import create_app
from service.settings import Settings

_START_SECONDS: Final = 300.0
_CLOSING_SECONDS: Final = 15.0
"""Time to close connections and engines after the last stream."""


class Options(BaseModel):
    """Arguments of `serve run`, and `args` in a config file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engines: int = Field(
        default=1,
        ge=1,
        description="engine processes of each model; asks Ray for DRAGOMAN_THREADS cores for each, and one for HTTP",
    )
    min_replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=4, ge=1)
    ongoing_requests: float = Field(
        default=16, gt=0, description="requests in flight for each replica above which Ray adds one"
    )
    max_ongoing_requests: int = Field(
        default=1000,
        ge=1,
        description="requests that Ray sends a replica at once; far above its queue, which refuses with 429",
    )
    check_seconds: float = Field(
        default=10,
        gt=0,
        description="interval and timeout of Ray's health checks; Ray replaces a replica after three failures, "
        "which take up to four times this",
    )


class Dragoman:
    """A replica: the service with its engines. Ray calls its methods."""

    def __init__(self, engines: int) -> None:
        self._app = create_app(Settings(replicas=engines))

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._app

    async def check_health(self) -> None:
        """Raise an error if Ray should replace this replica: after the first call, later after three errors in a row.

        The first call is part of the start: Ray sends no request here until the model has answered. The service
        itself replaces an engine that dies later, and has until the third call to do so.
        """
        library = self._app.state.service.library
        await library.wait_until_downloaded()  # as long as the network takes
        async with asyncio.timeout(_START_SECONDS):
            await library.wait_until_tried()
        if not library.ready:
            raise RuntimeError("all engines are lost")


def cores(engines: int) -> int:
    """Return the cores that a replica requests from Ray: one for each thread of its engines, and one for HTTP."""
    return engines * Settings().threads + 1


def application(options: Options) -> Application:
    """Build the application that `serve run` and `import_path` name."""
    autoscaling: dict[str, Any] = {
        "min_replicas": options.min_replicas,
        "max_replicas": max(options.min_replicas, options.max_replicas),
        "target_ongoing_requests": options.ongoing_requests,
    }
    deploy = serve.deployment(
        name="Dragoman",
        ray_actor_options={"num_cpus": cores(options.engines)},
        autoscaling_config=autoscaling,
        max_ongoing_requests=options.max_ongoing_requests,
        # A replica that is removed lets its streams finish.
        graceful_shutdown_timeout_s=Settings().drain_seconds + _CLOSING_SECONDS,
        health_check_period_s=options.check_seconds,
        health_check_timeout_s=options.check_seconds,
    )
    deployment: Deployment = deploy(serve.ingress()(Dragoman))
    return deployment.bind(options.engines)
