"""Which devices a kind's selectors find, in what drivers publish."""

import pytest

from accord.edges import device_catalog
from accord.edges.fleet_kinds import catalog_kind
from accord.render.kubernetes_drivers import FRACTIONS, WHOLE, of_kind, of_memory
from tests.render.cel import PRODUCTS, published, selects


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_kind_selects_its_own_products_alone(kind):
    found = catalog_kind(kind)
    for driver in filter(None, (WHOLE[found.vendor], FRACTIONS.get(found.vendor))):
        others = [one for one in PRODUCTS if catalog_kind(one).vendor is found.vendor]
        selectors = [*of_kind(driver, found), *of_memory(driver, found)]
        hit = [one for one in others if all(selects(one_, published(driver.name, one)) for one_ in selectors)]
        assert hit == [kind]


def test_every_kind_of_a_driver_with_claims_is_tried():
    kinds = {name for name in device_catalog.names() if catalog_kind(name).vendor in WHOLE}
    unknown = {"ascend-310p3", "ascend-910c", "b300", "gb200", "gb300"}  # what their drivers publish isn't known
    assert kinds - set(PRODUCTS) <= unknown, "say what their driver publishes"


@pytest.mark.parametrize(("kind", "other"), [("h20", "h200"), ("l4", "l40s"), ("ascend-910b4", "ascend-910b4-1")])
def test_a_longer_name_is_another_product(kind, other):
    driver = WHOLE[catalog_kind(kind).vendor]
    (by_name,) = of_kind(driver, catalog_kind(kind))
    assert selects(by_name, published(driver.name, kind))
    assert not selects(by_name, published(driver.name, other))
