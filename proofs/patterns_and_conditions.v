(* Page 12, "Which sparse patterns lose nothing?"
   (notebooks/sparse_universality/patterns_and_conditions.ipynb).
   Theorem 12.10 and Propositions 12.11, 12.12, 12.13, 12.15, 12.23;
     the rest is in patterns_and_conditions_2.v.
   Tokens and steps count from 0. *)
From Coq Require Import ZArith ZifyClasses ZifyInst ZifyBool Lia.
From mathcomp Require Import all_ssreflect.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* Linear arithmetic: what mathcomp's +, -, *, <= and == on nat mean to Coq's lia. *)
Lemma add_z m n : Z.of_nat (m + n) = (Z.of_nat m + Z.of_nat n)%Z.
Proof. by rewrite -plusE Nat2Z.inj_add. Qed.
Lemma sub_z m n : Z.of_nat (m - n) = Z.max 0 (Z.of_nat m - Z.of_nat n).
Proof. by rewrite -minusE Nat2Z.inj_sub_max. Qed.
Lemma mul_z m n : Z.of_nat (m * n) = (Z.of_nat m * Z.of_nat n)%Z.
Proof. by rewrite -multE Nat2Z.inj_mul. Qed.
Lemma leq_z m n : (m <= n) = (Z.of_nat m <=? Z.of_nat n)%Z.
Proof. by apply/leP/idP => [|/Z.leb_le] ?; [apply/Z.leb_le|]; lia. Qed.
Lemma eqn_z (m n : nat) : (m == n) = (Z.of_nat m =? Z.of_nat n)%Z.
Proof. by apply/eqP/idP => [|/Z.eqb_eq] ?; [apply/Z.eqb_eq|]; lia. Qed.
Definition add_i : BinOp addn := @mkbop _ _ _ _ _ _ addn Inj_nat_Z Inj_nat_Z Inj_nat_Z Z.add add_z.
Definition sub_i : BinOp subn :=
  @mkbop _ _ _ _ _ _ subn Inj_nat_Z Inj_nat_Z Inj_nat_Z (fun m n => Z.max 0 (m - n)) sub_z.
Definition mul_i : BinOp muln := @mkbop _ _ _ _ _ _ muln Inj_nat_Z Inj_nat_Z Inj_nat_Z Z.mul mul_z.
Definition leq_i : BinOp leq := @mkbop _ _ _ _ _ _ leq Inj_nat_Z Inj_nat_Z Inj_bool_bool Z.leb
  leq_z.
Definition eqn_i : BinOp (@eq_op nat_eqType : nat -> nat -> bool) :=
  @mkbop nat nat bool Z Z bool (@eq_op nat_eqType : nat -> nat -> bool)
         Inj_nat_Z Inj_nat_Z Inj_bool_bool Z.eqb eqn_z.
Lemma bool_z (b : bool) : Z.of_nat b = Z.b2z b. Proof. by case: b. Qed.
Definition bool_i : UnOp nat_of_bool :=
  @mkuop _ _ _ _ nat_of_bool Inj_bool_bool Inj_nat_Z Z.b2z bool_z.
Add Zify UnOp bool_i.
Add Zify BinOp add_i. Add Zify BinOp sub_i. Add Zify BinOp mul_i.
Add Zify BinOp leq_i. Add Zify BinOp eqn_i.

Ltac arith := intros; unfold is_true in *; simpl negb in *; lia.
Ltac nonlinear := intros; unfold is_true in *; nia.

(* Definitions 12.1 and 12.6. Step l < p gives token k the set A l k of tokens that it reads;
   layer t + 1 uses step t mod p. *)
Section Patterns.
Variables (T : finType) (p : nat) (A : nat -> T -> {set T}).
(* (12.2): whom token k has heard of after t layers *)
Local Notation heard := (heard_of (fun t => A (t %% p))).
(* after t layers everybody has heard of everybody *)
Definition full t := forall k, heard t k = setT.
(* k reads j in some step *)
Local Notation reads := (reads A p).
(* the three conditions, and the number of hops s *)
Definition condition1 := forall l k, l < p -> k \in A l k.
Definition condition2 :=
  exists2 gamma : seq T, perm_eq gamma (enum T) & sorted (fun j k => reads k j) gamma.
Definition condition3 := exists t, full t.
Definition hops s := full s /\ forall t, full t -> s <= t.
(* connections of a step, and of the pattern *)
Definition connections l := \sum_k #|A l k|.
Definition most_connections := \max_(l < p) connections l.

Lemma heardP t k i : reflect (exists2 j, j \in A (t %% p) k & i \in heard t j) (i \in heard t.+1 k).
Proof. exact: bigcupP. Qed.

Hypothesis p0 : 0 < p.
Hypothesis c1 : condition1.
Lemma heard_mono s t k : s <= t -> heard s k \subset heard t k.
Proof.
move/subnK <-; elim: (t - s) => //= u IH; apply: subset_trans IH _.
by apply: (bigcup_sup k); rewrite ?c1 ?ltn_pmod.
Qed.
Lemma full_mono s t : s <= t -> full s -> full t.
Proof.
move=> st fs k; apply/eqP; rewrite eqEsubset subsetT -(fs k); exact: heard_mono.
Qed.
Lemma hops_next s : full s.+1 -> ~ full s -> hops s.+1.
Proof.
by move=> f nf; split=> // t ft; rewrite ltnNge; apply/negP => ts; apply: nf; apply: full_mono ft.
Qed.
End Patterns.
Local Notation heard p A := (heard_of (fun t => A (t %% p))).

(* a pattern given by a relation: in step l token k reads the j with r l k j *)
Definition pattern n (r : nat -> rel nat) l (k : 'I_n) := [set j : 'I_n | r l k j].

Lemma patternP n p (r : nat -> rel nat) t (k i : 'I_n) :
  reflect (exists2 j : 'I_n, r (t %% p) k j & i \in heard p (@pattern n r) t j)
          (i \in heard p (@pattern n r) t.+1 k).
Proof. by apply: (iffP (heardP _ _ _ _ _)) => -[j jk ij]; exists j; rewrite ?inE // in jk *. Qed.

Lemma readsP n p (r : nat -> rel nat) (k j : 'I_n) l : l < p -> r l k j ->
  reads (@pattern n r) p k j.
Proof. by move=> lp rl; apply/existsP; exists (Ordinal lp); rewrite inE. Qed.

(* the path 0, 1, 2, ... *)
Lemma in_order n p (A : nat -> 'I_n -> {set 'I_n}) :
  (forall k j : 'I_n, k = j.+1 :> nat -> reads A p k j) -> condition2 p A.
Proof.
move=> next; exists (enum 'I_n) => //; case: n A next => [|n] A next;
  first by case: (enum 'I_0) => [|[]].
apply/(sortedP ord0) => i; rewrite size_enum_ord => i1; apply: next.
by rewrite !nth_enum_ord // ltnW.
Qed.

(* counting connections *)
Definition ones n (r : rel nat) := \sum_(k < n) \sum_(j < n) r k j.
Lemma connectionsE n (r : nat -> rel nat) l : connections (@pattern n r) l = ones n (r l).
Proof.
apply: eq_bigr => k _; rewrite -sum1dep_card big_mkcond /=.
by apply: eq_bigr => j _; case: (r l k j).
Qed.
Lemma onesS n r : ones n.+1 r = ones n r + \sum_(j < n) (r n j + r j n) + r n n.
Proof.
rewrite /ones big_ord_recr /= big_ord_recr /= big_split /=.
under eq_bigr do rewrite big_ord_recr /=.
by rewrite big_split /= !addnA addnAC -!addnA; congr (_ + _); rewrite !addnA addnC !addnA addnAC.
Qed.
Lemma eq_ones n r r' : {in gtn n &, r =2 r'} -> ones n r = ones n r'.
Proof. by move=> e; apply: eq_bigr => k _; apply: eq_bigr => j _; rewrite e ?inE /=. Qed.
Lemma sum_lt n a : a <= n -> \sum_(j < n) (j < a) = a.
Proof.
move=> an; rewrite -[RHS](card_ord a) -sum1_card (big_ord_widen n (fun _ => 1) an) [RHS]big_mkcond
  /=.
by apply: eq_bigr => j _; case: (j < a).
Qed.
Lemma ones_all n (r : rel nat) : (forall k j, k < n -> j < n -> r k j) -> ones n r = n * n.
Proof.
move=> all; rewrite /ones; under eq_bigr => k _ do under eq_bigr => j _ do rewrite all //.
by rewrite !sum_nat_const card_ord muln1.
Qed.

(* Theorem 12.10 (Fewest hops). *)
Theorem heard_few (T : finType) p (A : nat -> T -> {set T}) w : 0 < p ->
  (forall l k, l < p -> #|A l k| <= w) -> forall t k, #|heard p A t k| <= w ^ t.
Proof.
move=> p0 Aw; elim=> [|t IH] k; first by rewrite /= cards1.
rewrite expnS; apply: leq_trans (leq_mul (Aw (t %% p) k (ltn_pmod _ p0)) (leqnn _)).
rewrite -sum_nat_const /=; elim/big_rec2: _ => [|j m B jA Bm]; first by rewrite cards0.
exact: leq_trans (leq_card_setU _ _) (leq_add (IH j) Bm).
Qed.
Theorem fewest_hops (T : finType) p (A : nat -> T -> {set T}) w s : 0 < p -> T ->
  (forall l k, l < p -> #|A l k| <= w) -> hops p A s -> #|T| <= w ^ s.
Proof. by move=> p0 k Aw [f _]; rewrite -cardsT -(f k); apply: heard_few. Qed.

(* (12.5), the pattern that attains it *)
Definition digits w m l (k : 'I_(w ^ m)) : {set 'I_(w ^ m)} :=
  [set j : 'I_(w ^ m) | [exists i : 'I_w, (j + i * w ^ l) %% w ^ m == k :> nat]].
Arguments digits : clear implicits.
Lemma digits_heard w m t (k i : 'I_(w ^ m)) : 0 < w -> t <= m ->
  (exists2 d, d < w ^ t & (i + d) %% w ^ m = k) -> i \in heard m (digits w m) t k.
Proof.
move=> w0; elim: t k => [|t IH] k tm [d dt id].
  rewrite inE; apply/eqP/val_inj; rewrite /= -id.
  by move: dt; rewrite expn0 ltnS leqn0 => /eqP ->; rewrite addn0 modn_small.
(* the last digit of d is walked last *)
have wm : 0 < w ^ m by rewrite expn_gt0 w0. have wt : 0 < w ^ t by rewrite expn_gt0 w0.
pose j := Ordinal (ltn_pmod (i + d %% w ^ t) wm).
apply/heardP; exists j; last by apply: (IH _ (ltnW tm)); exists (d %% w ^ t); rewrite ?ltn_pmod.
rewrite modn_small // inE; have dw : d %/ w ^ t < w by rewrite ltn_divLR // -expnS.
apply/existsP; exists (Ordinal dw); apply/eqP; rewrite /= modnDml -id -addnA.
by rewrite [d %% _ + _]addnC -divn_eq.
Qed.
Theorem fewest_hops_attained w m : 1 < w -> 0 < m ->
  [/\ condition1 m (digits w m), condition2 m (digits w m), condition3 m (digits w m),
      hops m (digits w m) m & forall l k, l < m -> #|digits w m l k| <= w].
Proof.
move=> w1 m0; have w0 : 0 < w by arith. have wm : 0 < w ^ m by rewrite expn_gt0 w0.
have few l k : l < m -> #|digits w m l k| <= w.
  move=> lm; rewrite -[X in _ <= X](card_ord w) -cardsT.
  pose g (j : 'I_(w ^ m)) := odflt (Ordinal w0) [pick i : 'I_w | (j + i * w ^ l) %% w ^ m == k :>
    nat].
  rewrite -(@card_in_imset _ _ g) ?subset_leq_card ?subsetT // => j j'; rewrite !inE /g.
  case/existsP=> a ja; case/existsP=> a' ja'; case: pickP => [i ji|/(_ a)]; rewrite ?ja //.
  case: pickP => [i' ji' /= ii|/(_ a')]; rewrite ?ja' //; move: ji ji'; rewrite ii => /eqP <-.
  by rewrite eqn_modDr !modn_small // => /eqP/val_inj.
have c1 : condition1 m (digits w m).
  by move=> l k lm; rewrite inE; apply/existsP; exists (Ordinal w0); rewrite mul0n addn0 modn_small.
have fm : full m (digits w m) m.
  move=> k; apply/setP => i; rewrite [RHS]inE; apply: digits_heard => //.
  exists ((k + (w ^ m - i)) %% w ^ m); rewrite ?ltn_pmod //.
  by rewrite modnDmr addnCA subnKC ?(ltnW (ltn_ord i)) // modnDr modn_small.
split=> //.
- apply: in_order => k j kj; apply/existsP; exists (Ordinal m0); rewrite inE; apply/existsP.
  by exists (Ordinal w1); rewrite /= mul1n expn0 addn1 -kj modn_small.
- by exists m.
split=> // t /(_ (Ordinal wm)) f; rewrite -(leq_exp2l _ _ w1).
by rewrite -[X in X <= _]card_ord -cardsT -f; apply: heard_few.
Qed.
Example fewest_hops_4 : hops 2 (digits 2 2) 2 /\ #|'I_(2 ^ 2)| <= 2 ^ 2.
Proof.
have [_ _ _ h few] := @fewest_hops_attained 2 2 isT isT; split=> //.
exact: (fewest_hops (w := 2) _ (ord0 : 'I_(2 ^ 2).-1.+1) few h).
Qed.


(* Proposition 12.11 (The past alone). *)
Theorem causal n p (A : nat -> 'I_n -> {set 'I_n}) : 1 < n -> 0 < p ->
  (forall l k j, l < p -> j \in A l k -> j <= k) -> ~ condition3 p A.
Proof.
case: n A => [|[|n]] // A _ p0 past [t /(_ ord0)/setP/(_ ord_max)]; rewrite inE.
(* token 0 hears of token 0 alone *)
suff only u i : i \in heard p A u ord0 -> i = ord0 by move/only/(congr1 val).
elim: u i => [|u IH] i; first by move/set1P.
case/heardP => j /past jk; have -> : j = ord0; last exact: IH.
by apply/val_inj/eqP; rewrite -leqn0 jk // ltn_pmod.
Qed.
Example causal_2 : ~ condition3 1 (@pattern 2 (fun _ k j => j <= k)).
Proof. by apply: causal => // l k j _; rewrite inE. Qed.

(* Proposition 12.13: if tokens read inside their class alone, two classes never meet. *)
Lemma classes_apart (T : finType) p (A : nat -> T -> {set T}) (c : T -> nat) a b : 0 < p ->
  (forall l k j, l < p -> j \in A l k -> c j = c k) -> c a != c b -> ~ condition2 p A /\
    ~ condition3 p A.
Proof.
move=> p0 same ab; split=> [[gamma /perm_mem all_in path_g]|[t /(_ a)/setP/(_ b)]].
  have: forall j, j \in gamma -> c j = c (head a gamma).
    case: gamma path_g {all_in} => //= i s; elim: s i => [|k s IH] i /=.
      by move=> _ j; rewrite inE => /eqP ->.
    case/andP=> /existsP[l ik] path_s j; rewrite inE => /predU1P[-> //|/(IH _ path_s) ->].
    by rewrite (same _ _ _ (ltn_ord l) ik).
  by move=> one; move: ab; rewrite !one ?eqxx // all_in mem_enum.
suff stay u k j : j \in heard p A u k -> c j = c k by rewrite inE => /stay ba;
  rewrite ba eqxx in ab.
elim: u k => [|u IH] k; first by move/set1P ->.
by case/heardP => i ik /IH ->; apply: same ik; rewrite ltn_pmod.
Qed.

(* the distance of two tokens *)
Definition dist k j := (k - j) + (j - k).
Definition dilated D h (_ k j : nat) := (k %% D == j %% D) && (dist k j <= D * h).
Definition blocks b (_ k j : nat) := k %/ b == j %/ b.
Theorem classes n : 1 < n ->
  (forall D h, 1 < D -> ~ condition2 1 (@pattern n (dilated D h)) /\
    ~ condition3 1 (@pattern n (dilated D h))) /\
  (forall b, 0 < b < n -> ~ condition2 1 (@pattern n (blocks b)) /\
    ~ condition3 1 (@pattern n (blocks b))).
Proof.
move=> n1; pose i0 := Ordinal (ltnW n1).
split=> [D h D1|b /andP[b0 bn]].
  apply: (@classes_apart _ _ _ (fun k : 'I_n => k %% D) i0 (Ordinal n1)) => //.
    by move=> l k j _; rewrite inE => /andP[/eqP].
  by rewrite /= mod0n modn_small.
apply: (@classes_apart _ _ _ (fun k : 'I_n => k %/ b) i0 (Ordinal bn)) => //.
  by move=> l k j _; rewrite inE => /eqP.
by rewrite /= div0n divnn b0.
Qed.
Example classes_4 :
  ~ condition3 1 (@pattern 4 (dilated 2 1)) /\ ~ condition2 1 (@pattern 4 (blocks 2)).
Proof. by case: (classes (isT : 1 < 4)) => /(_ 2 1 isT)[_ d] /(_ 2 isT)[b _]. Qed.

(* Proposition 12.12 *)
Definition up a b := (a + b.-1) %/ b.     (* a / b rounded up *)
Lemma up_le a b t : 0 < b -> (up a b <= t) = (a <= t * b).
Proof. by move=> b0; rewrite -ltnS ltn_divLR // mulSn; arith. Qed.
Lemma most1 (T : finType) (A : nat -> T -> {set T}) : most_connections 1 A = connections A 0.
Proof. by rewrite /most_connections big_ord_recl big_ord0 maxn0. Qed.

Definition window h (_ k j : nat) := dist k j <= h.
Lemma window_heard n h t (k i : 'I_n) : (i \in heard 1 (@pattern n (window h)) t k) = (dist k i <=
  t * h).
Proof.
apply/idP/idP.
  elim: t k => [|t IH] k; first by move/set1P ->; rewrite /dist; arith.
  by case/patternP => j kj /IH; move: kj; rewrite /window /dist mulSn; arith.
elim: t k => [|t IH] k; first by rewrite inE /dist => ?; apply/eqP/val_inj => /=; arith.
rewrite mulSn => ki; apply/patternP; rewrite /window.
have [near|far] := leqP (dist k i) h; first by exists i => //; apply: IH; rewrite /dist; arith.
have [lt|le] := ltnP k i.
  have jn : k + h < n by move: far (ltn_ord i); rewrite /dist; arith.
  by exists (Ordinal jn) => /=; [|apply: IH => /=]; move: far ki; rewrite /dist; arith.
have jn : k - h < n by move: (ltn_ord k); arith.
by exists (Ordinal jn) => /=; [|apply: IH => /=]; move: far ki; rewrite /dist; arith.
Qed.
Lemma window_full n h t : 0 < n -> full 1 (@pattern n (window h)) t <-> n.-1 <= t * h.
Proof.
case: n => // n _; split=> [/(_ ord0)/setP/(_ ord_max)|le k].
  by rewrite inE window_heard /dist /=; arith.
apply/setP => i; rewrite inE window_heard; move: (ltn_ord k) (ltn_ord i) le; rewrite /dist /=;
  arith.
Qed.
Lemma window_ones n h : h <= n -> ones n (window h 0) + h * (h + 1) = (2 * h + 1) * n.
Proof.
move=> hn; rewrite -(subnK hn); elim: (n - h) => [|m IH]; rewrite ?add0n ?addSn.
  rewrite ones_all => [|k j]; last by rewrite /window /dist; arith.
  by nonlinear.
rewrite onesS (_ : \sum_(j < m + h) _ = 2 * h).
  by move: IH; rewrite /window /dist; nonlinear.
rewrite (eq_bigr (fun j : 'I_(m + h) => 2 * (m <= j))) => [|j _]; last first.
  by move: (ltn_ord j); rewrite /window /dist; arith.
rewrite -big_distrr /=; congr (2 * _).
apply/eqP; rewrite -(eqn_add2l m) -[X in X + _ == _](sum_lt (leq_addr h m)) -big_split /=.
rewrite (eq_bigr (fun _ => 1)) => [|j _]; last by arith.
by rewrite sum_nat_const card_ord muln1.
Qed.

Theorem windows n h : 0 < h -> 2 * h + 1 <= n -> let A := @pattern n (window h) in
  [/\ condition1 1 A, condition2 1 A, condition3 1 A, hops 1 A (up n.-1 h) &
      most_connections 1 A = (2 * h + 1) * n - h * (h + 1)].
Proof.
move=> h0 hn A; have n0 : 0 < n by move: hn; arith.
have full_iff t : full 1 A t <-> up n.-1 h <= t by rewrite up_le //; apply: window_full.
have s : hops 1 A (up n.-1 h) by split=> [|t /full_iff] //; apply/full_iff.
split=> //; last 1 first.
- by rewrite most1 connectionsE -(@window_ones n h) ?addnK //; move: hn; arith.
- by move=> l k _; rewrite inE /window /dist; arith.
- by apply: in_order => k j kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /window /dist; arith.
- by exists (up n.-1 h); case: s.
Qed.
Example window_5 : hops 1 (@pattern 5 (window 1)) 4 /\
  most_connections 1 (@pattern 5 (window 1)) = 13.
Proof. by case: (@windows 5 1 isT isT). Qed.
Definition dense (_ k j : nat) := true.
Theorem dense_attention n : 1 < n -> let A := @pattern n dense in
  hops 1 A 1 /\ most_connections 1 A = n * n.
Proof.
move=> n1 A; split; last by rewrite most1 connectionsE ones_all.
split=> [k|[|//] /(_ (Ordinal n1))/setP/(_ (Ordinal (ltnW n1)))]; last by rewrite !inE.
by apply/setP => i; rewrite inE; apply/patternP; exists i; rewrite //= inE.
Qed.
Example dense_2 : most_connections 1 (@pattern 2 dense) = 4.
Proof. by case: (@dense_attention 2 isT). Qed.

(* Proposition 12.15 (Star). *)
Definition star n (_ k j : nat) := (dist k j <= 1) || (j == n.-1) || (k == n.-1).
Lemma relay_full n (r : nat -> rel nat) : 0 < n -> (forall k j, k < n -> j < n -> (k == n.-1) ||
  (j == n.-1) -> r 0 k j) ->
  full 1 (@pattern n r) 2.
Proof.
move=> n0 relay k; apply/setP => i; rewrite inE; have hub : n.-1 < n by arith.
apply/patternP; exists (Ordinal hub); first by apply: relay; rewrite ?ltn_ord //= eqxx orbT.
by apply/patternP; exists i; rewrite ?inE //=; apply: relay; rewrite ?ltn_ord //= eqxx.
Qed.
Theorem star_local n : 2 < n -> let A := @pattern n (star n) in
  [/\ condition1 1 A, condition2 1 A, condition3 1 A, (3 < n -> hops 1 A 2) &
      most_connections 1 A = 5 * n - 6].
Proof.
move=> n2 A; have n0 : 0 < n by arith.
have c1 : condition1 1 A by move=> l k _; rewrite inE /star /dist; arith.
have f2 : full 1 A 2 by apply: relay_full => // k j kn jn; rewrite /star; arith.
split=> //; last 1 first.
- rewrite most1 connectionsE; case: n n2 {n0 A c1 f2} => // n n2; rewrite onesS.
  rewrite (eq_ones (r' := window 1 0)) => [|k j]; last by rewrite !inE /star /window /=; arith.
  rewrite (eq_bigr (fun _ => 2)) => [|j _]; last by rewrite /star /=; arith.
  rewrite sum_nat_const card_ord; have := @window_ones n 1; rewrite /star /=; arith.
- by apply: in_order => k j kj; apply: (@readsP _ _ _ _ _ 0); rewrite // /star /dist; arith.
- by exists 2.
(* token 0 does not read token 2 *)
move=> n3; apply: hops_next => // f1; have two : 2 < n by [].
have /setP/(_ (Ordinal two)) := f1 (Ordinal n0); rewrite [RHS]inE => /patternP[j].
by rewrite inE /star => kj /eqP ij; move: kj; rewrite -ij /dist /=; arith.
Qed.
Example star_4 : hops 1 (@pattern 4 (star 4)) 2 /\ most_connections 1 (@pattern 4 (star 4)) = 14.
Proof. by case: (@star_local 4 isT) => _ _ _ /(_ isT) h c. Qed.

(* Proposition 12.23 (Bare star). *)
Definition bare_star n (_ k j : nat) := (k == j) || (j == n.-1) || (k == n.-1).
Theorem bare n : 0 < n -> let A := @pattern n (bare_star n) in
  [/\ condition1 1 A, (2 < n -> condition3 1 A /\ hops 1 A 2) & (3 < n -> ~ condition2 1 A)].
Proof.
move=> n0 A.
have c1 : condition1 1 A by move=> l k _; rewrite inE /bare_star; arith.
have f2 : full 1 A 2 by apply: relay_full => // k j kn jn; rewrite /bare_star; arith.
split=> // [n2|n3].
  split; first by exists 2.
  apply: hops_next => // f1; have one : 1 < n by arith.
  have /setP/(_ (Ordinal one)) := f1 (Ordinal n0); rewrite [RHS]inE => /patternP[j].
  by rewrite inE /bare_star => kj /eqP ij; move: kj; rewrite -ij /=; arith.
rewrite /A {A c1 f2} => -[gamma perm].
case: n n0 n3 gamma perm => // n n0 n3 gamma perm /(sortedP ord0) step.
have sz : size gamma = n.+1 by rewrite (perm_size perm) size_enum_ord.
have un : uniq gamma by rewrite (perm_uniq perm) enum_uniq.
(* of two neighbours on the path one is the hub *)
have hub i : i.+1 < n.+1 -> (nth ord0 gamma i == n :> nat) || (nth ord0 gamma i.+1 == n :> nat).
  move=> i1n; have i1 : i.+1 < size gamma by rewrite sz.
  case/existsP: (step i i1) => l; rewrite inE /bare_star /= => /orP[/orP[|->]|->] //.
    by rewrite val_eqE nth_uniq // ?(ltnW i1) // => /eqP; arith.
  by rewrite orbT.
(* it would have to stand in the first two places and in the third or fourth *)
have same i j : i < n.+1 -> j < n.+1 -> nth ord0 gamma i == n :> nat ->
  nth ord0 gamma j == n :> nat -> i = j.
  move=> sin sjn /eqP gi /eqP gj; have [si sj] : i < size gamma /\ j < size gamma by rewrite sz.
  apply/eqP; rewrite -(nth_uniq ord0 si sj un).
  by apply/eqP/val_inj => /=; rewrite gi gj.
have n1 : 1 < n.+1 by arith.
case/orP: (hub 0 n1) => a; case/orP: (hub 2 n3) => b; (have e := same _ _ _ _ a b; by move: n3 e;
  arith).
Qed.
Example bare_4 : hops 1 (@pattern 4 (bare_star 4)) 2 /\ ~ condition2 1 (@pattern 4 (bare_star 4)).
Proof. by case: (@bare 4 isT) => _ /(_ isT)[_ h] /(_ isT). Qed.


