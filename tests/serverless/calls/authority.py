"""An authority on loopback that gives tokens: it checks who asks, and for what."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request, Response
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, RSAKey

ID, SECRET = "client-1", "a-secret-of-more-than-thirty-two-characters"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
GRANTS: dict[str, dict[str, str]] = {
    "client_credentials": {},
    "password": {"username": "ada", "password": "correct-horse"},
    "refresh_token": {"refresh_token": "refresh-1"},
    "authorization_code": {"code": "refresh-1"},
    "urn:ietf:params:oauth:grant-type:token-exchange": {
        "subject_token": "refresh-1",
        "subject_token_type": "urn:x",
        "actor_token": "actor-1",
        "actor_token_type": "urn:y",
    },
}


class Authority:
    """What the authority gives, and what it has been asked.

    Attributes:
        asked: What each request for a token said.
        method: How clients must authenticate.
        lifetime: How many seconds a token is good; ``None`` if that is not said.
        once: Whether a token is good for one call only.
        used: The tokens that calls have shown.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.method = "client_secret_post"
        self.lifetime: int | None = 300
        self.once = False
        self.used: set[str] = set()

    def mount(self, app: FastAPI) -> None:
        """Add the routes of the authority, and one that needs a token of it."""

        @app.get("/realm/.well-known/openid-configuration")
        async def configuration(request: Request) -> dict[str, str]:
            return {"token_endpoint": f"{request.base_url}realm/token"}

        @app.post("/realm/token")
        @app.post("/realm/oauth2/token")
        async def token(request: Request) -> Response:
            body = await request.body()
            if request.headers["content-type"] == "application/json":
                said = orjson.loads(body)
            else:
                said = {
                    name: one[0] if len(one) == 1 else one for name, one in parse_qs(body.decode()).items()
                }
            self.asked.append(said)
            right = GRANTS.get(str(said.get("grant_type")))
            if not self._knows(request, said):
                return _answer({"error": "invalid_client"}, 401)
            if right is None or any(said.get(name) != value for name, value in right.items()):
                return _answer({"error": "invalid_grant"}, 400)
            claims = {"iss": "https://issuer", "n": len(self.asked)}
            text = unsigned(claims)
            lifetime = {} if self.lifetime is None else {"expires_in": self.lifetime}
            return _answer({"access_token": text, "token_type": "Bearer", **lifetime}, 200)

        @app.get("/guarded")
        async def guarded(request: Request) -> Response:
            shown = request.headers.get("authorization", "")
            good = shown.startswith("Bearer e30.") and not (self.once and shown[7:] in self.used)
            self.used.add(shown[7:])
            return _answer({"token": shown[7:]} if good else {"error": "invalid_token"}, 200 if good else 401)

    def _knows(self, request: Request, said: dict[str, Any]) -> bool:
        if self.method == "client_secret_basic":
            shown = base64.b64decode(request.headers.get("authorization", "Basic ")[6:]).decode()
            return tuple(map(unquote, shown.split(":"))) == (ID, SECRET) and "client_secret" not in said
        if self.method == "client_secret_post":
            return (said.get("client_id"), said.get("client_secret")) == (ID, SECRET)
        if self.method == "none":
            return said.get("client_id") == ID and "client_secret" not in said
        key: Any = OctKey.import_key(SECRET) if self.method == "client_secret_jwt" else RSAKey.import_key(PEM)
        try:
            claims = jwt.decode(str(said.get("client_assertion")), key).claims
        except (JoseError, ValueError):
            return False
        return bool(claims["iss"] == claims["sub"] == ID and claims["aud"].endswith("token"))


def unsigned(claims: dict[str, Any]) -> str:
    """Return a token in the form of a JWT."""
    parts = (b"{}", orjson.dumps(claims), b"s")
    return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)


def _answer(content: Any, status: int) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")
