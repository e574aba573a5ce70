"""OpenAI's own client library against our server, where it is installed (extra ``bench``)."""

from __future__ import annotations

import pytest

from tests.runner.serve.serving import running

openai = pytest.importorskip("openai")


def test_the_client_library_talks_to_the_server() -> None:
    with running() as client:
        library = openai.OpenAI(base_url=f"http://127.0.0.1:{client.port}/v1", api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "hello"}]
        answer = library.chat.completions.create(model="tiny", messages=messages)
        chunks = library.chat.completions.create(model="tiny", messages=messages, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert [model.id for model in library.models.list()] == ["tiny", "alias"]
        with pytest.raises(openai.NotFoundError) as missing:
            library.chat.completions.create(model="other", messages=messages)
        with pytest.raises(openai.BadRequestError) as refused:
            library.chat.completions.create(model="tiny", messages=messages, n=2)
    assert answer.choices[0].message.content == text == "wor ld"
    assert answer.usage.completion_tokens == 5
    assert missing.value.code == "model_not_found"
    assert refused.value.param == "n"
