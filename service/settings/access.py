"""Settings of access control."""

from pathlib import Path

from pydantic import RedisDsn
from pydantic_settings import BaseSettings

from service.settings.groups import Group, setting
from service.settings.values import Networks, Origins, StreamSecret


class AccessSettings(BaseSettings):
    """Settings of access control: keys, limits without a key, trusted proxies and origins."""

    keys: Path | None = setting(
        Group.ACCESS,
        default=None,
        description="SQLite file of API keys, made by `dragoman keys add`. Requests then need a key.",
    )
    anonymous: bool = setting(
        Group.SWITCHES,
        default=False,
        description="With --keys: also serve requests without a key. Their limits are of each address, or IPv6 /64 "
        "network.",
    )
    anonymous_requests_per_minute: int | None = setting(
        Group.ANONYMOUS, default=None, ge=1, description="Requests per minute of each address without a key."
    )
    anonymous_characters_per_minute: int | None = setting(
        Group.ANONYMOUS, default=None, ge=1, description="Characters per minute of each address without a key."
    )
    anonymous_streams: int | None = setting(
        Group.ANONYMOUS, default=None, ge=1, description="Concurrent streams of each address without a key."
    )
    redis_url: RedisDsn | None = setting(
        Group.ACCESS,
        default=None,
        description="Redis server (redis://HOST:PORT/DB) in which several servers count rate limits together.",
    )
    stream_secret: StreamSecret | None = setting(
        Group.ACCESS,
        default=None,
        description="Secret of at least 16 characters by which streams are signed, for servers that do not share a key "
        "file: all that have it resume each other's streams without another charge. Set it as a variable: other users "
        "of the machine see flags.",
    )
    trusted_proxies: Networks = setting(
        Group.CONNECTIONS,
        default=(),
        description="Comma-separated addresses or networks of proxies, as 10.0.0.0/8, whose X-Forwarded-For, -Proto, "
        "-Host and -Prefix headers are trusted.",
    )
    cors_origins: Origins = setting(
        Group.CONNECTIONS,
        default=(),
        description="Comma-separated origins, as https://a.example, whose web pages may call the API; * allows all.",
    )
