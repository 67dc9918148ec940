from django.test import Client


def test_the_catalog_names_each_tool_with_its_schema(client: Client):
    add, erase = client.get("/agent/tools/").json()["tools"]
    assert list(add) == ["name", "description", "parameters", "requires_approval", "idempotent"]
    assert (add["name"], add["description"]) == ("add", "Add two numbers.")
    assert add["parameters"]["required"] == ["a", "b"]
    assert (add["requires_approval"], add["idempotent"]) == (False, False)
    assert (erase["name"], erase["requires_approval"], erase["idempotent"]) == ("erase", True, True)
