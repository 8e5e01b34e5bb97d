(* Page 23, "Layers or steps" (notebooks/what_came_after/layers_or_steps.ipynb).
   Theorem 23.4 and Proposition 23.7; the rest is in layers_or_steps_2.v.
   In Theorem 23.4 F is any ordered field, and exp and ln are any functions. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities patterns_and_conditions bits_of_a_tile.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

(* Theorem 23.4 (The third hop). *)
Section ThirdHop.
Variables (F : realFieldType) (exp ln : F -> F) (T : finType) (H m p : nat).
(* a token holds its name and its pointer; of these are made its logit for what the query holds, and
   its value *)
Definition holds (f : {ffun T -> T}) i := (i, f i).
Variables (logit : 'I_H -> T * T -> T * T -> F) (val : 'I_H -> T * T -> 'rV[F]_m).
Definition logits (f : {ffun T -> T}) q h i := logit h (holds f q) (holds f i).
Definition values (f : {ffun T -> T}) h i := val h (holds f i).
(* the tile, and the numbers that it tells *)
Definition tile_of (f : {ffun T -> T}) q := [set i | (i != q) && (i != f q)].
Definition message f q : {ffun 'I_H * option 'I_m -> F} :=
  [ffun x => number exp ln (tile_of f q) (logits f q x.1) (values f x.1) x.2].
(* the rule of rounding sees these numbers alone; p bits: at most 2^p values each *)
Variable round : {ffun 'I_H * option 'I_m -> F} -> 'I_H * option 'I_m -> F.
Hypothesis bits : forall x, exists s : seq F, size s <= 2 ^ p /\ forall M, round M x \in s.
(* it is merged with what q and f q tell; any function follows, which also sees what q holds *)
Variable after : T * T -> {ffun 'I_H -> 'rV[F]_m} -> T.
Definition finds (f : {ffun T -> T}) q := let near := [set q; f q] in
  after (holds f q) [ffun h => merge exp
    (round (message f q) (h, None)) (\row_j round (message f q) (h, Some j))%R
    (lambda exp ln near (logits f q h)) (tile_mean exp ln near (logits f q h) (values f h))].

Lemma number_eq (S : {set T}) l l' (v v' : T -> 'rV[F]_m) c : {in S, l =1 l'} -> {in S, v =1 v'} ->
  number exp ln S l v c = number exp ln S l' v' c.
Proof.
move=> el ev; have eqL : lambda exp ln S l = lambda exp ln S l'.
  by congr ln; apply: eq_bigr => i iS; rewrite el.
rewrite /number; case: c => [j|] //; congr (fun_of_matrix _ _ _).
by apply: eq_bigr => i iS; rewrite eqL el ?ev.
Qed.

(* If f^3 q is found for every map f of n >= 3 tokens, then H (m + 1) p >= (n - 2) log_2 n: that is,
   n^(n - 2) <= 2^(H (m + 1) p). *)
Theorem third_hop q : 2 < #|T| -> (forall f, finds f q = f (f (f q))) ->
  #|T| ^ (#|T| - 2) <= 2 ^ (H * m.+1 * p).
Proof.
move=> T3 right; have [r rq] : exists r, r != q.
  apply/existsP; apply: contraTT T3; rewrite negb_exists => /forallP all.
  rewrite -leqNgt (eq_card (B := pred1 q)) ?card1 // => i; rewrite !inE.
  by have := all i; rewrite negbK => ->.
pose tile := [set i | (i != q) && (i != r)].
(* fillings of the tile; r points to t *)
pose fillings := pffun_on q (mem tile) (mem T).
pose fill (t : T) (g : {ffun T -> T}) := [ffun i => if i == q then r else if i == r then t else g i].
have fq t g : fill t g q = r by rewrite ffunE eqxx.
have fr t g : fill t g r = t by rewrite ffunE (negbTE rq) eqxx.
have ft t g i : i \in tile -> fill t g i = g i.
  by rewrite inE ffunE => /andP[/negbTE -> /negbTE ->].
have tileE t g : tile_of (fill t g) q = tile by rewrite /tile_of fq.
have same t t' g : message (fill t g) q = message (fill t' g) q.
  apply/ffunP => x; rewrite !ffunE !tileE; apply: number_eq => i iS.
    by rewrite /logits /holds !fq !ft.
  by rewrite /values /holds !ft.
rewrite -messages; pose told g := round (message (fill q g) q).
have few x : exists s : seq F, size s <= 2 ^ p /\ forall g, told g x \in s.
  by have [s [small mem]] := bits x; exists s; split=> // g; apply: mem.
have := @drawers F _ _ _ fillings id told p few.
rewrite card_imset => [bound|]; last by move=> ? ?.
have cardT : #|tile| = #|T| - 2.
  rewrite -(cardsC [set q; r]) cards2 eq_sym rq addKn; apply: eq_card => i.
  by rewrite !inE negb_or.
rewrite -cardT -(card_pffun_on q); apply: leq_trans (bound _) => [|g g' gD g'D eq].
  by [].
apply/ffunP => t; have [tT|tT] := boolP (t \in tile); last first.
  have out (h : {ffun T -> T}) : h \in fillings -> h t = q.
    case/pffun_onP=> /supportP-> //.
  by rewrite !out.
(* r points to t: the answers are equal *)
have := right (fill t g); have := right (fill t g'); rewrite !fq !fr !ft // => <- <-.
rewrite /finds !fq; congr after; first by rewrite /holds !fq.
have near h i : i \in [set q; r] -> logits (fill t g) q h i = logits (fill t g') q h i /\
    values (fill t g) h i = values (fill t g') h i.
  by rewrite /logits /values /holds !inE => /orP[] /eqP ->; rewrite !(fq, fr).
apply/ffunP => h; rewrite !ffunE; congr merge.
- by rewrite (same t q g) (same t q g'); apply: eq.
- by apply/rowP => j; rewrite !mxE (same t q g) (same t q g'); apply: eq.
- by have := @number_eq [set q; r] _ _ _ _ None (fun i iS => (near h i iS).1)
    (fun i iS => (near h i iS).2).
apply/rowP => j.
exact: (@number_eq [set q; r] _ _ _ _ (Some j) (fun i iS => (near h i iS).1)
  (fun i iS => (near h i iS).2)).
Qed.
End ThirdHop.

(* Proposition 23.7 (As far as names reach). *)
Section ByNames.
Variables (T : finType) (f : T -> T) (may : rel T).
(* at the start a token holds its own name and that of f i *)
Definition pair i := [set i; f i].
(* all names that tokens hold which i may read, and which share a name with i *)
Definition found (names : T -> {set T}) i :=
  \bigcup_(k | may i k && ~~ [disjoint names i & names k]) names k.
Definition held l := iter l found pair.
(* whoever reads less holds less *)
Definition possible (names : nat -> T -> {set T}) :=
  (forall i, names 0 i \subset pair i) /\ forall l i, names l.+1 i \subset found (names l) i.
Lemma possible_held names l i : possible names -> names l i \subset held l i.
Proof.
case=> at0 next; elim: l i => [|l IH] i; first exact: at0.
apply: subset_trans (next l i) _; apply/bigcupsP => k /andP[mk share].
apply: subset_trans (IH k) _; apply: bigcup_sup; rewrite mk; apply: contra share.
by move=> dis; apply: disjointWl (IH i) (disjointWr (IH k) dis).
Qed.
Lemma held_possible : possible held. Proof. by split. Qed.
Lemma foundP (names : T -> {set T}) i y :
  reflect (exists k x, [/\ may i k, x \in names i, x \in names k & y \in names k]) (y \in found names i).
Proof.
apply: (iffP bigcupP) => [[k /andP[mk /pred0Pn[x /andP[xi xk]]] yk]|[k [x [mk xi xk yk]]]].
  by exists k, x.
by exists k => //; rewrite mk; apply/pred0Pn; exists x; rewrite /= xi.
Qed.
End ByNames.

(* Sums that come below, in any commutative ring. *)
Section Sums.
Local Open Scope ring_scope.
Variables (R : comRingType) (x y k i b s t u v : R).
Lemma sum1 : y - i + (b + s) = (y - k + b) + (x - i + b) + (s - (x - k + b)). Proof. by ident. Qed.
Lemma sum2 : y = i + (y - i + (b + s)) - b - s. Proof. by ident. Qed.
Lemma sum3 : i - b + v - i + b = v. Proof. by ident. Qed.
Lemma sum4 : i - b + v - (i + u - s) + b = v + s - u. Proof. by ident. Qed.
Lemma sum5 : i + t - b - s - (i + u - s) + b = t - u. Proof. by ident. Qed.
Lemma sum6 : i + t - i + b = t + b. Proof. by ident. Qed.
End Sums.

(* (a) One cycle of N = n + 2 tokens, f i = i + 1; tokens may read all. *)
Section Cycle.
Variable n : nat.
Local Notation N := n.+2.
Local Notation T := 'I_n.+2.
Local Open Scope ring_scope.
Definition next (i : T) : T := i + 1.
Definition all_tokens : rel T := fun _ _ => true.
Lemma add_le (x y : T) : ((x + y)%R <= x + y)%N. Proof. exact: leq_mod. Qed.
Lemma nat_le k : (((k%:R : T)%R : nat) <= k)%N. Proof. by rewrite Zp_nat /= leq_mod. Qed.
(* y is at most (3^l - 1) / 2 behind i and at most (3^l + 1) / 2 ahead *)
Lemma reach l (i y : T) : (3 ^ l < N)%N ->
  (y \in held next all_tokens l i) = ((y - i + (3 ^ l)./2%:R)%R <= 3 ^ l)%N.
Proof.
elim: l i y => [|l IH] i y lt.
  rewrite expn0 addr0 in_set2 /next [i + 1]addrC -subr_eq -(subr_eq0 y i).
  by case: (y - i) => -[|[|k]] kN.
have s3 : (3 ^ l.+1 = 3 * 3 ^ l)%N by rewrite expnS.
have sN : (3 ^ l < N)%N by rewrite s3 in lt; arith.
have odd_s : odd (3 ^ l) by rewrite oddX orbT.
set s := (3 ^ l)%N in s3 sN odd_s IH *; set b := s./2 in IH *.
have sE : s = (b + b).+1 by rewrite -(odd_double_half s) odd_s -addnn.
have -> : ((3 ^ l.+1)./2 = b + s)%N.
  by rewrite s3 (_ : 3 * s = (b + s).*2.+1)%N ?half_double /= ?uphalf_double //; rewrite -addnn; arith.
rewrite s3 natrD; apply/foundP/idP => [[k [x [_]]]|].
  rewrite !IH // => xi xk yk.
  have -> : y - i + (b%:R + s%:R) = (y - k + b%:R) + (x - i + b%:R) + (s%:R - (x - k + b%:R)) :> T.
    exact: (@sum1 (Zp_comRingType n)).
  have back : ((s%:R - (x - k + b%:R))%R <= s)%N.
    rewrite -[x - k + b%:R]natr_Zp -natrB //; apply: leq_trans (nat_le _) (leq_subr _ _).
  apply: leq_trans (add_le _ _) _; rewrite [(3 * s)%N]mulnC !mulnS muln0 addn0 addnA.
  by apply: leq_add => //; apply: leq_trans (add_le _ _) (leq_add _ _).
set t : nat := nat_of_ord (_ - _ + _) => t3; pose u := minn t (s + s).
have tE : y = i + t%:R - b%:R - s%:R by rewrite /t natr_Zp; exact: (@sum2 (Zp_comRingType n)).
pose k : T := i + u%:R - s%:R; pose x : T := i - b%:R + (u - s)%:R.
exists k, x; rewrite !IH //; split=> //.
- rewrite (_ : x - i + _ = (u - s)%:R); last exact: (@sum3 (Zp_comRingType n)).
  by apply: leq_trans (nat_le _) _; rewrite /u /minn; case: ltnP => *; arith.
- rewrite (_ : x - k + _ = ((u - s) + s - u)%:R).
    by apply: leq_trans (nat_le _) _; arith.
  by rewrite natrB ?natrD; [exact: (@sum4 (Zp_comRingType n))|arith].
rewrite (_ : y - k + _ = (t - u)%:R).
  by apply: leq_trans (nat_le _) _; rewrite /u /minn; case: ltnP => *; arith.
by rewrite natrB ?geq_minl // tE; exact: (@sum5 (Zp_comRingType n)).
Qed.
(* On a cycle of more than 2 3^L tokens no name d hops ahead is held for d > (3^L + 1) / 2, and that of
   (3^L + 1) / 2 hops can be. Ahead is the shorter way round: 2 d <= N. *)
Theorem cycle L : (2 * 3 ^ L < N)%N -> let a := ((3 ^ L).+1)./2 in
  (forall names i d, possible next all_tokens names -> (2 * d <= N)%N ->
    i + d%:R \in names L i -> (d <= a)%N) /\
  (2 * a <= N)%N /\ exists2 names, possible next all_tokens names & forall i, i + a%:R \in names L i.
Proof.
move=> lt a; have sN : (3 ^ L < N)%N by arith.
have odd_s : odd (3 ^ L) by rewrite oddX orbT.
have sE : (3 ^ L = ((3 ^ L)./2 + (3 ^ L)./2).+1)%N by rewrite -{1}(odd_double_half (3 ^ L)) odd_s -addnn.
have aE : (a = ((3 ^ L)./2).+1)%N.
  by rewrite /a (_ : (3 ^ L).+1 = ((3 ^ L)./2.+1).*2)%N ?doubleK // doubleS -addnn -sE.
have val_nat k : (k < N)%N -> (k%:R : T) = k :> nat by move=> kN; rewrite Zp_nat /= modn_small.
have ahead (i : T) d : i + d%:R - i + (3 ^ L)./2%:R = (d + (3 ^ L)./2)%:R.
  by rewrite natrD; exact: (@sum6 (Zp_comRingType n)).
split=> [names i d pos dN /(subsetP (possible_held L i pos))|].
  by rewrite reach // ahead val_nat; arith.
split; first by arith.
exists (held next all_tokens) => [|i]; first exact: held_possible.
by rewrite reach // ahead val_nat; arith.
Qed.
End Cycle.

(* (b) A decoder on a chain: f i = i - 1 (and f 0 = 0), and token i reads tokens j <= i alone. *)
Section Chain.
Variable n : nat.
Definition back (i : 'I_n.+1) : 'I_n.+1 := inord i.-1.
Definition earlier : rel 'I_n.+1 := fun i j => j <= i.
Lemma backE i : back i = i.-1 :> nat.
Proof. by rewrite inordK // ltnS (leq_trans (leq_pred _)) ?leq_ord. Qed.
Lemma chain_reach l (i y : 'I_n.+1) : (y \in held back earlier l i) = (y <= i <= y + 2 ^ l).
Proof.
elim: l i y => [|l IH] i y.
  by rewrite expn0 !inE -!val_eqE /= backE; case: (i : nat) => [|k]; apply/idP/idP; rewrite /= ; arith.
apply/foundP/idP => [[k [x []]]|yi].
  by rewrite !IH /earlier expnS; arith.
pose k : 'I_n.+1 := inord (maxn y (i - 2 ^ l)).
have kE : k = maxn y (i - 2 ^ l) :> nat.
  by rewrite inordK // ltnS geq_max leq_ord (leq_trans (leq_subr _ _)) ?leq_ord.
exists k, k; rewrite !IH /earlier kE /maxn; move: yi; rewrite expnS.
by case: ltnP => *; split; arith.
Qed.
(* No name of more than 2^L hops is held, and that of 2^L hops can be, if the chain is that long. *)
Theorem chain L :
  (forall names (i y : 'I_n.+1), possible back earlier names -> y \in names L i ->
    y <= i <= y + 2 ^ L) /\
  exists2 names, possible back earlier names &
    forall i : 'I_n.+1, 2 ^ L <= i -> inord (i - 2 ^ L) \in names L i.
Proof.
split=> [names i y pos yi|].
  by have := subsetP (possible_held L i pos) y yi; rewrite chain_reach.
exists (held back earlier) => [|i le]; first exact: held_possible.
by rewrite chain_reach inordK; have := ltn_ord i; arith.
Qed.
End Chain.
