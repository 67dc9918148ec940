import asyncio

import pytest
from pydantic_ai_harness.step_persistence import InMemoryStepStore, RunRecord, ToolEffectRecord

from django_pydantic_agent.stores.scoped import ScopedStepStore


def test_no_scope_and_run_id_reach_another_scope():
    foreign = InMemoryStepStore()

    def scoped(scope):
        return ScopedStepStore(lambda request: foreign, scope=scope)(None)

    async def main():
        names = [("a", "b:c"), ("a:b", "c"), ("a", "1:b"), ("1:a", "b")]
        for scope, run_id in names:
            await scoped(scope).register_run(RunRecord(run_id=run_id, metadata={"scope": scope}))
        await foreign.register_run(RunRecord(run_id="1:ab"))
        for scope, run_id in names:
            record = await scoped(scope).get_run(run_id=run_id)
            assert (record.run_id, record.metadata) == (run_id, {"scope": scope})
        assert await scoped("1").get_run(run_id="ab") is None
        return [[record.run_id for record in await scoped(scope).list_runs()] for scope in ("a", "a:b")]

    assert asyncio.run(main()) == [["b:c", "1:b"], ["c"]]


def test_clients_see_their_own_ids_in_every_record():
    store = ScopedStepStore(lambda request: InMemoryStepStore(), scope="support")(None)

    async def main():
        await store.register_run(RunRecord(run_id="child", parent_run_id="parent"))
        await store.record_tool_effect(
            ToolEffectRecord(tool_call_id="c", tool_name="t", run_id="child", status="started")
        )
        [record] = await store.list_runs(parent_run_id="parent")
        [effect] = await store.list_unresolved_tool_effects(run_id="child")
        return record.run_id, record.parent_run_id, effect.run_id

    assert asyncio.run(main()) == ("child", "parent", "child")


def test_a_store_with_scopes_of_its_own_is_asked_for_one():
    class Store:
        def scoped(self, scope):
            return f"scoped to {scope}"

    assert ScopedStepStore(lambda request: Store(), scope="support")(None) == "scoped to support"


@pytest.mark.parametrize(
    ("factory", "scope", "error"), [("x", "s", TypeError), (list, "", ValueError), (list, 1, ValueError)]
)
def test_what_is_no_factory_or_no_scope_is_refused(factory, scope, error):
    with pytest.raises(error):
        ScopedStepStore(factory, scope=scope)
