"""Realistic analytical queries over a retail warehouse, as people write them."""

from __future__ import annotations

SCHEMA: dict[str, dict[str, str]] = {
    "sales": {
        "sale_id": "BIGINT",
        "store_id": "INT",
        "customer_id": "INT",
        "product_id": "INT",
        "sold_on": "DATE",
        "sold_at": "TIMESTAMP",
        "quantity": "INT",
        "price": "DECIMAL(10, 2)",
        "discount": "DECIMAL(10, 2)",
        "channel": "STRING",
        "promo_id": "INT",
    },
    "returns": {
        "sale_id": "BIGINT",
        "product_id": "INT",
        "returned_on": "DATE",
        "quantity": "INT",
        "amount": "DECIMAL(10, 2)",
        "reason": "STRING",
        "customer_id": "INT",
    },
    "stores": {"store_id": "INT", "name": "STRING", "state": "STRING", "opened": "DATE"},
    "customers": {
        "customer_id": "INT",
        "name": "STRING",
        "state": "STRING",
        "born": "DATE",
        "email": "STRING",
        "segment": "STRING",
    },
    "products": {
        "product_id": "INT",
        "name": "STRING",
        "brand": "STRING",
        "category": "STRING",
        "cost": "DECIMAL(10, 2)",
        "tags": "ARRAY<STRING>",
    },
    "days": {"day": "DATE", "year": "INT", "month": "INT", "week": "INT", "holiday": "BOOLEAN"},
    "stock": {"product_id": "INT", "store_id": "INT", "day": "DATE", "on_hand": "INT"},
}

_NET = "s.quantity * s.price - s.discount"

QUERIES: dict[str, str] = {
    "revenue by store and month": f"""
        SELECT st.name, d.year, d.month, SUM({_NET}) AS revenue, COUNT(DISTINCT s.customer_id) AS n
        FROM sales s JOIN stores st ON s.store_id = st.store_id JOIN days d ON d.day = s.sold_on
        WHERE d.year BETWEEN 2020 AND 2022 AND st.state IN ('CA', 'NY')
        GROUP BY st.name, d.year, d.month HAVING SUM({_NET}) > 1000 ORDER BY revenue DESC LIMIT
          100""",
    "customers above their state's mean": """
        WITH spent AS (SELECT c.customer_id, c.state, SUM(s.price * s.quantity) AS total
          FROM sales s JOIN customers c ON s.customer_id = c.customer_id
          WHERE s.sold_on >= DATE '2021-01-01' GROUP BY c.customer_id, c.state)
        SELECT a.customer_id, a.total FROM spent a
        WHERE a.total > (SELECT AVG(b.total) * 1.2 FROM spent b WHERE b.state = a.state)
        ORDER BY a.customer_id LIMIT 100""",
    "rollup of category and brand": """
        SELECT p.category, p.brand, SUM(s.quantity) AS units, GROUPING(p.brand) AS level,
          RANK() OVER (PARTITION BY GROUPING(p.category) + GROUPING(p.brand)
            ORDER BY SUM(s.quantity) DESC) AS place
        FROM sales s JOIN products p ON s.product_id = p.product_id
        GROUP BY ROLLUP (p.category, p.brand)""",
    "sold but never returned": """
        SELECT DISTINCT s.product_id FROM sales s
        LEFT JOIN returns r ON r.sale_id = s.sale_id AND r.product_id = s.product_id
        WHERE r.sale_id IS NULL AND s.sold_on > DATE '2020-06-30' - INTERVAL 30 DAYS""",
    "channels side by side": """
        SELECT d.week, SUM(CASE WHEN s.channel = 'web' THEN s.price END) AS web,
          SUM(CASE WHEN s.channel = 'store' THEN s.price END) AS store,
          SUM(CASE WHEN s.channel = 'web' THEN 1 ELSE 0 END) / COUNT(*) AS share
        FROM sales s JOIN days d ON s.sold_on = d.day GROUP BY d.week""",
    "latest sale per customer": """
        SELECT customer_id, sale_id, price FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY sold_at DESC, sale_id)
            AS rn
          FROM sales) WHERE rn = 1""",
    "in all channels": """
        SELECT customer_id FROM sales WHERE channel = 'web' INTERSECT
        SELECT customer_id FROM sales WHERE channel = 'store' INTERSECT
        SELECT customer_id FROM returns""",
    "web only": """
        SELECT customer_id, product_id FROM sales WHERE channel = 'web' EXCEPT
        SELECT customer_id, product_id FROM sales WHERE channel = 'store'""",
    "year over year": """
        WITH y AS (SELECT p.brand, d.year, SUM(s.price) AS total FROM sales s
          JOIN products p USING (product_id) JOIN days d ON d.day = s.sold_on GROUP BY p.brand,
            d.year)
        SELECT cur.brand, cur.total, prev.total AS before, (cur.total - prev.total) /
          prev.total AS growth
        FROM y cur JOIN y prev ON cur.brand = prev.brand AND cur.year = prev.year + 1
        WHERE cur.year = 2022 ORDER BY growth DESC LIMIT 10""",
    "tags": """
        SELECT t.tag, COUNT(*) AS n FROM products p LATERAL VIEW explode(p.tags) t AS tag
        WHERE p.cost > 10 GROUP BY t.tag""",
    "running total": """
        SELECT store_id, sold_on, day_total,
          SUM(day_total) OVER (PARTITION BY store_id ORDER BY sold_on) AS so_far,
          AVG(day_total) OVER (PARTITION BY store_id ORDER BY sold_on
            ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS week_mean
        FROM (SELECT store_id, sold_on, SUM(price) AS day_total FROM sales GROUP BY store_id,
          sold_on)""",
    "sales and returns together": """
        SELECT 'sale' AS kind, product_id, SUM(price) AS amount FROM sales GROUP BY product_id
        UNION ALL
        SELECT 'return', product_id, -SUM(amount) FROM returns GROUP BY product_id""",
    "full picture per product": """
        SELECT COALESCE(s.product_id, r.product_id) AS product_id, s.sold, r.returned
        FROM (SELECT product_id, SUM(quantity) AS sold FROM sales GROUP BY product_id) s
        FULL JOIN (SELECT product_id, SUM(quantity) AS returned FROM returns GROUP BY product_id) r
          ON s.product_id = r.product_id""",
    "frequent buyers of a category": """
        SELECT c.name, c.segment FROM customers c WHERE EXISTS (SELECT 1 FROM sales s
          JOIN products p ON p.product_id = s.product_id
          WHERE s.customer_id = c.customer_id AND p.category = 'Books')
        AND c.customer_id NOT IN (SELECT customer_id FROM returns WHERE reason = 'fraud')""",
    "out of stock": """
        SELECT st.state, p.category, COUNT(*) AS days_out FROM stock k
        JOIN stores st ON st.store_id = k.store_id JOIN products p ON p.product_id = k.product_id
        WHERE k.on_hand = 0 AND k.day BETWEEN @start_ds AND @end_ds GROUP BY 1, 2""",
    "enriched sales": f"""
        SELECT s.sale_id, s.sold_on, c.segment, p.brand, p.category, st.state, {_NET} AS net,
          {_NET} - p.cost * s.quantity AS margin, r.amount AS refunded,
          CASE WHEN r.amount IS NULL THEN 'kept' WHEN r.amount < s.price THEN 'part' ELSE 'all'
            END AS fate
        FROM sales s LEFT JOIN customers c ON c.customer_id = s.customer_id
        LEFT JOIN products p ON p.product_id = s.product_id
        LEFT JOIN stores st ON st.store_id = s.store_id
        LEFT JOIN (SELECT sale_id, SUM(amount) AS amount FROM returns GROUP BY sale_id) r
          ON r.sale_id = s.sale_id""",
    "cohorts": """
        WITH first AS (SELECT customer_id, MIN(sold_on) AS day FROM sales GROUP BY customer_id),
        active AS (SELECT DISTINCT customer_id, date_trunc('MONTH', sold_on) AS month FROM sales)
        SELECT date_trunc('MONTH', f.day) AS cohort, a.month, COUNT(*) AS customers
        FROM first f JOIN active a ON a.customer_id = f.customer_id
        WHERE a.month >= date_trunc('MONTH', f.day) GROUP BY 1, 2""",
    "gaps between sales": """
        SELECT customer_id, sold_on,
          datediff(sold_on, LAG(sold_on) OVER (PARTITION BY customer_id ORDER BY sold_on,
            sale_id)) AS gap
        FROM sales""",
    "top three per category": """
        WITH ranked AS (SELECT p.category, p.name, SUM(s.price) AS total,
            DENSE_RANK() OVER (PARTITION BY p.category ORDER BY SUM(s.price) DESC) AS place
          FROM sales s JOIN products p ON p.product_id = s.product_id GROUP BY p.category, p.name)
        SELECT category, name, total FROM ranked WHERE place <= 3""",
    "segments": """
        SELECT segment, CASE WHEN age < 25 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old'
          END AS band,
          COUNT(*) AS n, COUNT(email) AS reachable
        FROM (SELECT segment, email, floor(datediff(current_date(), born) / 365) AS age FROM
          customers)
        GROUP BY ALL""",
    "promotions": """
        SELECT promo_id, COUNT(*) FILTER (WHERE channel = 'web') AS web, MAX(price) -
          MIN(price) AS spread,
          stddev_samp(price) AS deviation, percentile_approx(price, 0.5) AS median
        FROM sales WHERE promo_id IS NOT NULL GROUP BY promo_id""",
    "stores without sales": """
        SELECT st.* FROM stores st LEFT ANTI JOIN sales s ON s.store_id = st.store_id""",
    "days without sales": """
        SELECT d.day FROM days d LEFT JOIN sales s ON s.sold_on = d.day WHERE s.sale_id IS NULL
          AND NOT d.holiday""",
    "baskets": """
        SELECT a.product_id AS p, b.product_id AS q, COUNT(*) AS n FROM sales a
        JOIN sales b ON a.customer_id = b.customer_id AND a.sold_on = b.sold_on AND
          a.product_id < b.product_id
        GROUP BY a.product_id, b.product_id HAVING COUNT(*) > 5""",
    "mail domains": """
        SELECT lower(split(email, '@')[1]) AS domain, COUNT(*) AS n FROM customers
        WHERE email LIKE '%@%' GROUP BY domain ORDER BY n DESC LIMIT 20""",
    "margin quarters": f"""
        SELECT year(s.sold_on) AS y, quarter(s.sold_on) AS q, SUM({_NET}) AS net,
          SUM({_NET}) / SUM(SUM({_NET})) OVER (PARTITION BY year(s.sold_on)) AS share
        FROM sales s GROUP BY year(s.sold_on), quarter(s.sold_on)""",
    "grouping sets": """
        SELECT st.state, p.category, SUM(s.price) AS total FROM sales s, stores st, products p
        WHERE s.store_id = st.store_id AND s.product_id = p.product_id
        GROUP BY GROUPING SETS ((st.state, p.category), (st.state), ())""",
    "pricing bands": """
        SELECT width_bucket(price, 0, 100, 10) AS band, COUNT(*) AS n FROM sales GROUP BY 1""",
    "daily report": """
        WITH s AS (SELECT sold_on, SUM(price) AS sold FROM sales GROUP BY sold_on),
        r AS (SELECT returned_on, SUM(amount) AS refunded FROM returns GROUP BY returned_on)
        SELECT d.day, COALESCE(s.sold, 0) AS sold, COALESCE(r.refunded, 0) AS refunded
        FROM days d LEFT JOIN s ON s.sold_on = d.day LEFT JOIN r ON r.returned_on = d.day""",
    "structs": """
        SELECT customer_id, max(struct(sold_at, sale_id)).sale_id AS last_sale,
          transform(collect_set(channel), c -> upper(c)) AS channels FROM sales GROUP BY
            customer_id""",
    "changes of stock": """
        SELECT product_id, store_id, day, on_hand - LAG(on_hand, 1, 0) OVER w AS change FROM stock
        WINDOW w AS (PARTITION BY product_id, store_id ORDER BY day)""",
    "best day": """
        SELECT store_id, max_by(sold_on, price) AS day FROM sales GROUP BY store_id""",
}
