SELECT count(*) FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store;
SELECT nothing FROM sales;
SELECT 'not reached';
