"""A project with everything that could hold a stream back, cache it, or keep a connection open for it."""

from tests.live.settings import *  # noqa: F403

DATABASES["default"]["ATOMIC_REQUESTS"] = True  # noqa: F405
SESSION_SAVE_EVERY_REQUEST = True
MIDDLEWARE = [
    "django.middleware.cache.UpdateCacheMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "tests.api.middleware.synchronous",
    *MIDDLEWARE,  # noqa: F405
    "tests.api.middleware.counting",
    "django.middleware.cache.FetchFromCacheMiddleware",
]
